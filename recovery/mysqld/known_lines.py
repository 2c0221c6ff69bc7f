"""Hides the names of a user's schemas and tables in a server's log: of each line only what has none is shown.

A server names tables in many messages, and in new ones with each release. So a text is shown only if it is listed here.
Of any other line its time, severity and code are left, and the number of the error that it reports."""

from __future__ import annotations

import re
from functools import cache

HIDDEN = "(hidden: it may name a schema or a table)"
_PREFIX = re.compile(
    r"(?:\d{4}-\d\d-\d\d[T ] ?\d{1,2}:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)? +|\d{6} {1,2}\d{1,2}:\d\d:\d\d +)?"
    r"(?:\d{1,20} )?(?:\[(?:Note|Warning|ERROR|System)\] )?(?:\[MY-\d{6}\] \[(?:Server|InnoDB|Repl|Client)\] )?"
    r"(?:InnoDB: )?",
    re.ASCII,
)
_FIGURES = re.compile(r"\d+(?: \d+)*", re.ASCII)
_ERROR_NUMBER = re.compile(r"\b(?:errcode|errno|error(?: number)?)[: ]+(\d{1,4})\b", re.ASCII | re.IGNORECASE)
_PROGRAM, _CUT = "MYSQLD", "…"
_TEXTS = frozenset(
    """
# non-redo rollback segment(s) are active.
# out of # rollback segments are active.
# redo rollback segment(s) found. # redo rollback segment(s) are active.
# rollback segment(s) are active.
# rollback segments are active.
# rollback segments in # undo tablespaces are active.
# transaction(s) which must be rolled back or cleaned up
# transaction(s) which must be rolled back or cleaned up in total # row operations to undo
# transactions in prepared state after recovery
#%
#.#.# started; log sequence number #
#:#:# UTC - mysqld got signal # ;
--innodb-file-per-table is deprecated and will be removed in a future release
--secure-file-priv is set to NULL. Operations related to importing and exporting data are disabled
Aborting
Added new Master_info '' to hash table
Apply batch completed
Apply batch completed!
Applying a batch of # redo log records ...
Atomic write enabled
Binlog end
Buffer pool(s) load aborted at # #:#:#
Buffer pool(s) load completed at # #:#:#
Bytes written to disk by DBLWR (ON): #
CA certificate ca.pem is self signed.
Cannot allocate memory for the buffer pool
Cannot continue operation.
Channel mysql_main configured to support TLS. Encrypted connections are now supported for this channel.
Cleaning up trx with id #
Completed initialization of buffer pool
Completed space ID check of # files.
Compressed tables use zlib #.#.#
Could not increase number of max_open_files to more than # (request: #)
Crash recovery finished in InnoDB engine. No attempts to commit, rollback or prepare any transactions.
Crash recovery finished.
Crash table recovery finished.
Created # and tracked # new rollback segment(s) in the temporary tablespace. # are now active.
Creating shared tablespace for temporary tables
DDL log recovery : begin
DDL log recovery : end
Data Dictionary initialization failed.
Data dictionary restarting version '#'.
Database was not shut down normally!
Database was not shutdown normally!
Doing recovery: scanned up to log sequence number #
Double write buffer files: #
Double write buffer files: #, --innodb-doublewrite-files=#, segments_per_file=#
Double write buffer pages per instance: #
End of log at LSN=#
Error-log destination "stderr" is not a file. Can not restore error log messages from previous run.
Event Scheduler: Killing the scheduler thread, thread id #
Event Scheduler: Loaded # events
Event Scheduler: Purging the queue. # events
Event Scheduler: Stopped
Event Scheduler: Waiting for the scheduler thread to reply
Event Scheduler: scheduler thread started with id #
FTS optimize thread exiting.
Failed to initialize DD Storage Engine
Failed to start replica threads for channel ''.
Failed to start slave threads for channel ''.
File './ibtmp#' size is now # MB.
File './ibtmp#' size is now #.#MiB.
File system buffers for log disabled (block size=# bytes)
Files found so far: #
Forcefully disconnecting # remaining clients
Found ca.pem, server-cert.pem and server-key.pem in data directory. Trying to enable SSL support using them.
GCC builtin __atomic_thread_fence() is used for memory barrier
GCC builtin __sync_synchronize() is used for memory barrier
GTID recovery trx_no: #
Giving # client threads a chance to die gracefully
Highest supported file format is Barracuda.
If you are installing InnoDB, remember that you must create directories yourself, InnoDB does not create them.
Initializing buffer pool, size = #.#M
Initializing buffer pool, total size = #.#M, instances = #, chunk size =#.#M
Initializing buffer pool, total size = #.#MiB, chunk size = #.#MiB
Initializing buffer pool, total size = #M, instances = #, chunk size = #M
InnoDB initialization has ended.
InnoDB initialization has started.
Log background threads are being closed...
Log background threads are being started...
Log scan progressed past the checkpoint LSN #.
Log scan progressed past the checkpoint lsn #
MYSQLD: ready for connections.
Memory barrier is not used
Mutexes and rw_locks use GCC atomic builtins
MySQL Server - end.
MySQL Server - start.
MySQL Server: Closing Connections - end.
MySQL Server: Closing Connections - start.
MySQL Server: Plugins Shutdown - end.
MySQL Server: Plugins Shutdown - start.
New log files created, LSN=#
Number of pools: #
Number of transaction pools: #
Only one log file found.
Opened # existing undo tablespaces.
Opened # undo tablespaces
PUNCH HOLE support available
Parallel initialization of rseg complete
Parsed redo log up to LSN=#; to recover: # pages
Plugin 'FEDERATED' is disabled.
Plugin 'FEEDBACK' is disabled.
Plugin 'mysqlx' is disabled.
Plugin 'ndb_transid_mysql_connection_map' is disabled.
Plugin 'ndbcluster' is disabled.
Plugin 'ndbinfo' is disabled.
Plugin 'wsrep-provider' is disabled.
Plugin initialization aborted with error Generic error.
Read redo log up to LSN=#
Reading DD tablespace files
Reading of all Master_info entries succeded
Reading tablespace information from the .ibd files...
Removed temporary tablespace data file: "./ibtmp#"
Removed temporary tablespace data file: "ibtmp#"
Renaming log file ./ib_logfile# to ./ib_logfile#
Restoring possible half-written data pages
Restoring possible half-written data pages from the doublewrite buffer...
Rollback of non-prepared transactions completed
Rollback of trx with id # completed
Rolled back recovered transaction #
Rolling back trx with id #, # rows to undo
Scanned # tablespaces. Validated #.
Scanned # tablespaces. Validated #. Found # missing.
Scanning temp tablespace dir:'./#innodb_temp/'
Server version with update: '#.#.#.#-#'
Set innodb_force_recovery=# to ignore this and to permanently lose all changes to the tablespace.
Setting file './ibtmp#' size to # MB. Physically writing the file full; Please wait ...
Setting file './ibtmp#' size to #.#MiB. Physically writing the file full; Please wait ...
Setting log file ./ib_logfile# size to # MB
Shutdown completed; log sequence number #
Shutdown completed; log sequence number #; transaction id #
Shutting down replica threads
Shutting down slave threads
Shutting down...
Skipping generation of SSL certificates as certificate files are present in data directory.
Starting XA crash recovery...
Starting a batch to recover # pages from redo log.
Starting an apply batch of log records to the database...
Starting crash recovery from checkpoint LSN=#
Starting crash recovery.
Starting crash recovery...
Starting final batch to recover # pages from redo log.
Starting in background the rollback of recovered transactions
Starting in background the rollback of uncommitted transactions
Starting shutdown...
Starting table crash recovery...
Starting to delete and rewrite log files.
Starting to parse redo log at lsn = #, whereas checkpoint_lsn = #
Starting to parse redo log at lsn = #, whereas checkpoint_lsn = # and start_lsn = #
The InnoDB memory heap is disabled
The error means the system cannot find the path specified.
The latest found checkpoint is at lsn = # in redo log file ./#innodb_redo/#ib_redo#.
The log sequence number # in the system tablespace does not match the log sequence number # in the ib_logfiles!
The log sequence number # in the system tablespace does not match the log sequence number # in the redo log files!
The log sequence number in ibdata files does not match
The log sequence numbers # and # in ibdata files do not match the log sequence number # in the ib_logfiles!
Time taken to initialize rseg using # thread: # ms.
To recover: # pages
To recover: LSN #/#; # pages
Transaction # in prepared state after recovery
Transaction # was in the XA prepared state.
Transaction contains changes to # rows
Trx id counter is #
Unable to lock ./ibdata# error: #
Unable to lock ./ibdata#, error: #
Uses event mutexes
Using './#ib_#_#.dblwr' for doublewrite
Using AVX# instructions
Using CPU crc# instructions
Using Linux native AIO
Using SSE# crc# instructions
Using atomics to ref count buffer pool pages
Using crc# + pclmulqdq instructions
Using data dictionary with version '#'.
Using hardware accelerated crc# and polynomial multiplication.
Using innodb_flush_method=O_DIRECT
Using io_uring
Using undo tablespace './undo_#'.
Validated #/#  tablespaces
Waiting for purge to start
Waiting for the background threads to start
XA crash recovery finished.
buffer...
failed to retrieve the MAC address
from the doublewrite buffer...
highest supported file format is Barracuda.
in total # row operations to undo
innodb_buffer_pool_size_max=#m, innodb_buffer_pool_size=#m
log sequence number #; transaction id #
mariadbd: Event Scheduler: Loaded # events
page_cleaner coordinator priority: -#
the log sequence number in the ib_logfiles!
""".splitlines()
)
"""Texts of messages, with `#` for each figure, as 5.5 to 9.7 and MariaDB 10.2 to 11.8 write them."""
_SHAPES = """
# threads have validated #…
Basedir set to…
BuildID[…
Cannot open datafile for read-only: '…' OS error: #
Checked #/#…
Checksum mismatch in datafile:…, Space ID:#, Flags: #.…
Could not find a valid tablespace file for…
Creating # tablespace…
Database page corruption on disk or a failed file read of page [page id: space=#, page number=#]…
Datafile '…' is corrupted. Cannot determine the space ID from the first # pages.
Directories to scan '…
Doing recovery: scanned up to log sequence number #…
Error number # means…
Failed to set up SSL…
Fatal error: Can't open and lock privilege tables…
Found # '.ibd'…
If the mysqld execution user is authorized, page cleaner thread priority can be changed.…
Ignoring tablespace…because it could not be opened.
Insecure configuration for --pid-file…
Last MySQL binlog file position #, file name…
Loading buffer pool(s) from…
MYSQLD (mariadbd #.#.#…) starting as process #
MYSQLD (mysqld #.#.#…) starting as process #
MYSQLD (mysqld #.#.#…) starting as process # ...
MYSQLD (…): Normal shutdown
MYSQLD: Normal shutdown
MYSQLD: Shutdown complete
MYSQLD: Shutdown complete (mariadbd #.#.#…
MYSQLD: Shutdown complete (mysqld #.#.#…
MYSQLD: ready for connections.
MYSQLD: ready for connections. Version: '#.#.#…
MYSQLD: unknown option…
MYSQLD: unknown variable…
Missing data directory for ICU regular expressions…
Operating system error number # in a file operation…
Progress in percent: #…
Progress in percents: #…
Received SHUTDOWN from user…Shutting down…
Recovering after a crash using tc.log
Recovering after a crash using…
Resizing redo log from #…
Scanned # tablespaces. Validated #…
Scanning './…
Server upgrade from '#' to '#' completed…
Server upgrade from '#' to '#' started…
Shutting down plugin '…
Skipping generation of RSA key pair through…
Some operating system error numbers are described at…
Starting MariaDB #.#.#… as process #
Starting MySQL #.#.#… as process #
TIMESTAMP with implicit DEFAULT value is deprecated.…
Table upgrade…
Tablespace # was not found at…
Tablespace #, name '…', file '…' is missing!
The syntax '…' is deprecated…
Using # thread to scan # tablespace files…
Using # threads to scan # tablespace files…
Validated #/#  tablespaces…
Version: '#.#.#…
You have not provided a mandatory server-id.…
unknown option…
unknown variable…
"""
"""Texts of messages that are cut at each `…`; MYSQLD is the server's program."""


def hide_names(text: str, program: str) -> str:
    """Returns the lines of a server's log without names of the user's schemas and tables. `program` is the path of the
    server's program."""
    return "\n".join(_shown(line, program) for line in text.split("\n"))


def _shown(line: str, program: str) -> str:
    prefix = _PREFIX.match(line)
    begin = "" if prefix is None else prefix[0]
    text = line[len(begin) :].rstrip()
    if _FIGURES.sub("#", text) in _TEXTS or line in (HIDDEN, ""):
        return line
    if (match := _shape_pattern(program).fullmatch(text)) is not None:
        parts = [part for part in match.groups() if part is not None]
        return begin + "".join("..." if number % 2 and part else part for number, part in enumerate(parts))
    numbers = "".join(f", error number {number}" for number in _ERROR_NUMBER.findall(text)[:1])
    return f"{begin}{HIDDEN[:-1]}{numbers})"


@cache
def _shape_pattern(program: str) -> re.Pattern[str]:
    """Returns a pattern of all shapes, whose groups are by turns a part that is shown and one that is cut."""
    shapes = []
    for shape in _SHAPES.split("\n")[1:-1]:
        parts = [re.escape(part).replace("\\#", r"\d+(?: \d+)*") for part in shape.split(_CUT)]
        shapes.append("(.*?)".join(f"({part})" for part in parts).replace(_PROGRAM, re.escape(program)))
    return re.compile("|".join(shapes), re.ASCII)
