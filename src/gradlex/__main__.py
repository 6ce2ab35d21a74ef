"""`python -m gradlex` is the command `gradlex`."""

from gradlex.cli import main

if __name__ == "__main__":
    main()
