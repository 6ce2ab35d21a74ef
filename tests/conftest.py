"""What holds for every test and the processes that it starts."""

import os
import signal

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported: tests run two at a time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
