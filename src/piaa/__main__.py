"""`python -m piaa` is the `piaa` command."""

from piaa.cli import main

if __name__ == "__main__":
    main()
