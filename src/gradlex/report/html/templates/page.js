"use strict";
// Charts can be read point by point: with a pointer, a finger, or the arrow keys.
for (const figure of document.querySelectorAll("figure.chart")) {
  const data = JSON.parse(figure.querySelector("script").textContent);
  const plot = figure.querySelector(".plot");
  const cross = plot.querySelector(".cross");
  const tip = plot.querySelector(".tip");
  const walk = plot.querySelector(".walk");
  const words = (place) => data.series.filter((s) => s.shown[place] !== null)
    .map((s) => `${s.name} ${s.shown[place]}`).join(", ");
  const tell = () => walk.setAttribute("aria-valuetext", `${data.at[walk.value]}: ${words(walk.value)}`);
  const show = (place) => {
    walk.value = place;
    tell();
    cross.hidden = tip.hidden = false;
    cross.style.left = `${100 * data.x[place]}%`;
    const lines = [Object.assign(document.createElement("b"), { textContent: data.at[place] })];
    cross.replaceChildren();
    for (const series of data.series) {
      if (series.shown[place] === null) continue;
      const line = document.createElement("span");
      const swatch = Object.assign(document.createElement("i"), { className: `swatch dot c${series.colour % 12}` });
      line.append(swatch, `${data.series.length > 1 ? `${series.name} ` : ""}${series.shown[place]}`);
      lines.push(line);
      const point = Object.assign(document.createElement("i"), { className: `c${series.colour % 12}` });
      point.style.bottom = `${100 * series.y[place]}%`;
      cross.append(point);
    }
    tip.replaceChildren(...lines);
    const right = data.x[place] > 0.5;
    tip.style.left = right ? "auto" : `calc(${100 * data.x[place]}% + 12px)`;
    tip.style.right = right ? `calc(${100 * (1 - data.x[place])}% + 12px)` : "auto";
  };
  const hide = () => { cross.hidden = tip.hidden = true; };
  const nearest = (event) => {
    const box = plot.getBoundingClientRect();
    const x = (event.clientX - box.left) / box.width, y = 1 - (event.clientY - box.top) / box.height;
    let best = 0, least = Infinity;
    data.x.forEach((at, place) => {
      // Along lines only x counts; among points with the same x, the nearer one.
      const away = Math.min(...data.series.map((s) => s.y[place] === null ? Infinity : Math.abs(s.y[place] - y)));
      const distance = Math.abs(at - x) * box.width + Math.min(away, 1) * 4;
      if (distance < least) { least = distance; best = place; }
    });
    return best;
  };
  plot.addEventListener("pointermove", (event) => show(nearest(event)));
  plot.addEventListener("pointerdown", (event) => show(nearest(event)));
  plot.addEventListener("pointerleave", hide);
  walk.addEventListener("focus", () => show(Number(walk.value)));
  walk.addEventListener("input", () => show(Number(walk.value)));
  walk.addEventListener("blur", hide);
  walk.hidden = false;
  tell();
}
for (const figure of document.querySelectorAll("figure.intervals")) {
  const tip = figure.querySelector(":scope > .tip");
  const hide = () => { tip.hidden = true; };
  for (const point of figure.querySelectorAll("[data-tip]")) {
    const show = () => {
      tip.textContent = point.dataset.tip;
      tip.hidden = false;
      const box = figure.getBoundingClientRect(), own = point.getBoundingClientRect();
      tip.style.left = `${Math.min(own.left - box.left + 12, box.width - tip.offsetWidth - 4)}px`;
      tip.style.top = `${own.top - box.top - tip.offsetHeight - 6}px`;
    };
    for (const name of ["pointerenter", "focus"]) point.addEventListener(name, show);
    for (const name of ["pointerleave", "blur"]) point.addEventListener(name, hide);
  }
}
// What is folded away is printed too.
addEventListener("beforeprint", () => {
  for (const each of document.querySelectorAll("details:not([open])")) {
    if (each.closest("figure")) continue;
    each.open = true;
    each.dataset.printed = "";
  }
});
addEventListener("afterprint", () => {
  for (const each of document.querySelectorAll("details[data-printed]")) { each.open = false; delete each.dataset.printed; }
});
