"""Makes ``python -m iotop_ai`` the same as ``iotop-ai``."""

import sys

from iotop_ai.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
