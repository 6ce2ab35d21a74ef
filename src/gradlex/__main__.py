"""The command `gradlex`, also as `python -m gradlex`."""

from gradlex.cli import main

if __name__ == "__main__":
    main()
