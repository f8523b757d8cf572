"""`python -m arcacct`: the command line."""

from arcacct.cli.main import main

if __name__ == "__main__":
    main()
