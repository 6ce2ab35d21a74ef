"""Adapters to libraries that people already use, one module each: import the one you need.

`pip install 'gradlex[integrations]'` installs DEAP, pymoo and GEPA. With the same seed an adapter chooses the parents
that `gradlex.selection.select_parents` chooses from the same errors. `sklearn` has estimators that train networks.
"""
