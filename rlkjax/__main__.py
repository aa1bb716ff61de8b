"""`python -m rlkjax VERB ...` is the console script `rlkjax VERB ...`."""

import sys

from rlkjax.cli import main

sys.exit(main())
