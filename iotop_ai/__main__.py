"""``python -m iotop_ai`` is ``iotop-ai``."""

import sys

from iotop_ai.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
