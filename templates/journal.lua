-- For sysbench: each client writes one transaction after the other, numbered, and writes down what it was told of each,
-- in a file of its own outside the server. A number goes into every table and into the client's balance, so that a
-- transaction that is there in part is seen; every so many are rolled back on purpose.

sysbench.cmdline.options = {
   journals = {"Folder of the journals", ""},
   tables = {"Tables that a transaction writes to", 3},
   rollback_every = {"Transactions of which one is rolled back", 10}
}

local CLOCK_MONOTONIC = 1
local connection, journal
local number = 0

ffi.cdef([[
struct journal_time { long seconds; long nanoseconds; };
int clock_gettime(int clock, struct journal_time *now);
]])
local clock = ffi.new("struct journal_time")

local function note(what)
   ffi.C.clock_gettime(CLOCK_MONOTONIC, clock)
   journal:write(string.format("%s %d %d.%09d\n", what, number, tonumber(clock.seconds), tonumber(clock.nanoseconds)))
end

function thread_init()
   connection = sysbench.sql.driver():connect()
   journal = assert(io.open(string.format("%s/%d", sysbench.opt.journals, sysbench.tid), "w"))
   -- A line goes to the kernel by itself: it is there also if this process is killed next.
   journal:setvbuf("line")
end

function event()
   number = number + 1
   local client = sysbench.tid
   connection:query("begin")
   for table = 1, sysbench.opt.tables do
      connection:query(string.format("insert into ledger_%d (client, number, filler) values (%d, %d, '%s')",
         table, client, number, sysbench.rand.string(string.rep("@", 400))))
   end
   connection:query(string.format("update balance set number = %d where client = %d", number, client))
   if number % sysbench.opt.rollback_every == 0 then
      connection:query("rollback")
      note("r")
   else
      connection:query("commit")
      note("c")
   end
end
