"""`python -m respmq` is `respmq`."""

from respmq.cli import main

if __name__ == "__main__":
    main(prog_name="respmq")
