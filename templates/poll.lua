-- For sysbench: each thread asks the statements of a file in turn, and rests after each answer. The rest lies outside
-- of what sysbench times, so that its report tells the answers: events a second, and milliseconds of each.

sysbench.cmdline.options = {
   statements = {"File of statements, with a NUL byte after each", ""},
   every = {"Seconds of rest after an answer", "0"},
   tables = {"Tables of which one is named where a statement says {table}", 1},
   schema = {"What it says for {database}", ""}
}

local LONGEST_REST_S = 0.1
local connection, statements, every_s
local turn = 0

ffi.cdef("int usleep(unsigned int useconds);")

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

-- In short pieces: the end of the run is not slept through.
local function rest(thread_id)
   local left_s = every_s
   while left_s > 0 and ffi.C.sb_more_events(thread_id) do
      local now_s = math.min(left_s, LONGEST_REST_S)
      ffi.C.usleep(now_s * 1000000)
      left_s = left_s - now_s
   end
end

function thread_run(thread_id)
   while ffi.C.sb_more_events(thread_id) do
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
      rest(thread_id)
   end
end

function thread_done()
   connection:disconnect()
end
