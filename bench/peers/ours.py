import sys

from agentos.cli.runner import serve

serve(host=None, port=int(sys.argv[1]))
