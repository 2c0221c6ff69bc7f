-- For sysbench: each thread asks the statements of a file in turn, and waits until the next is due. The wait lies
-- outside of what sysbench times, so that its report tells the answers: events a second, and milliseconds of each.
-- Outside of it as well, each tells from time to time what of the table cache's work was for itself, and what for all:
-- the rest was for the load.

sysbench.cmdline.options = {
   statements = {"File of statements, with a NUL byte after each", ""},
   every = {"Seconds from the beginning of a statement to that of the next", "0"},
   tables = {"Tables of which one is named where a statement says {table}", 1},
   schema = {"What it says for {database}", ""},
   counters = {"Statement that tells what was counted, global or session for {scope}: names and values", ""}
}

local LONGEST_WAIT_S = 0.1
local TELL_EVERY_S = 1
-- To tell takes no more than this share of the time.
local TELLING = 0.01
local LAST_TRIES = 3
local CLOCK_MONOTONIC = 1
local connection, statements, every_s
local turn = 0
local due_s = 0

ffi.cdef([[
int usleep(unsigned int useconds);
struct poll_time { long seconds; long nanoseconds; };
int clock_gettime(int clock, struct poll_time *now);
]])
local clock = ffi.new("struct poll_time")

local function now_s()
   ffi.C.clock_gettime(CLOCK_MONOTONIC, clock)
   return tonumber(clock.seconds) + tonumber(clock.nanoseconds) / 1e9
end

function thread_init()
   local file = assert(io.open(sysbench.opt.statements, "rb"))
   statements = {}
   for statement in file:read("*a"):gmatch("%Z+") do
      table.insert(statements, statement)
   end
   file:close()
   assert(#statements > 0, "there is no statement in " .. sysbench.opt.statements)
   every_s = tonumber(sysbench.opt.every)
   connection = sysbench.sql.driver():connect()
end

function event()
   local names = {
      table = "sbtest" .. sysbench.rand.uniform(1, sysbench.opt.tables),
      database = sysbench.opt.schema
   }
   -- The first answers of several threads are to different statements.
   local statement = statements[(turn + sysbench.tid) % #statements + 1]:gsub("{(%w+)}", names)
   turn = turn + 1
   local answer = connection:query(statement)
   if answer ~= nil then
      while answer:fetch_row() do end
      answer:free()
   end
end

local function counted(scope)
   local found = {}
   local answer = connection:query((sysbench.opt.counters:gsub("{scope}", scope)))
   local row = answer:fetch_row()
   while row do
      found[row[1]:lower()] = row[2]
      row = answer:fetch_row()
   end
   answer:free()
   return found.table_open_cache_hits, found.table_open_cache_misses
end

-- Both at one moment, at which this session does nothing else: what others have done by then is exact.
local function told(thread_id, ending)
   local hits, misses = counted("global")
   local at_s = now_s()
   local own_hits, own_misses = counted("session")
   if hits and misses and own_hits and own_misses then
      io.stdout:write(string.format(
         "table cache, poller %d at %.6f s%s: hits %s of %s, misses %s of %s\n",
         thread_id, at_s, ending, own_hits, hits, own_misses, misses
      ))
      io.stdout:flush()
   end
end

local function tell(thread_id)
   local began_s = now_s()
   if began_s >= due_s then
      pcall(told, thread_id, "")  -- another time then
      local ended_s = now_s()
      due_s = ended_s + math.max(TELL_EVERY_S, (ended_s - began_s) / TELLING)
   end
end

-- In short pieces: the end of the run is not slept through.
local function wait_until(next_s, thread_id)
   local left_s = next_s - now_s()
   while left_s > 0 and ffi.C.sb_more_events(thread_id) do
      tell(thread_id)
      ffi.C.usleep(math.min(left_s, LONGEST_WAIT_S) * 1000000)
      left_s = next_s - now_s()
   end
end

function thread_run(thread_id)
   while ffi.C.sb_more_events(thread_id) do
      tell(thread_id)
      local next_s = now_s() + every_s
      ffi.C.sb_event_start(thread_id)
      local answered, problem = pcall(event)
      if answered then
         -- What was cut short because the time was up may look like an answer.
         if ffi.C.sb_more_events(thread_id) then
            ffi.C.sb_event_stop(thread_id)
         end
      elseif type(problem) ~= "table" or problem.errcode ~= sysbench.error.RESTART_EVENT then
         error(problem, 0)
      end
      wait_until(next_s, thread_id)
   end
   -- What cut an answer short may hit this, too.
   for _ = 1, LAST_TRIES do
      if pcall(told, thread_id, ", its last") then
         break
      end
   end
end

function thread_done()
   connection:disconnect()
end
