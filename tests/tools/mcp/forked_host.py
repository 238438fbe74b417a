"""Stand for the process for MCP servers: an interpreter that has loaded the SDK forks that process."""

import os
import sys

from tests.support.shell_command import fork

if __name__ == "__main__":
    sys.exit(fork(os.environ["IKIGAI_TEST_HOSTS"], "ikigai.tools.mcp.host"))
