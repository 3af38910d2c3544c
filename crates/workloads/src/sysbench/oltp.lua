-- What Flyball adds to a test of sysbench's: warming, bursts, a pause after each transaction, and one before the first. It stands behind the line that
-- loads the test.
--
-- Bursts begin where the monotonic clock is a multiple of the period, so that all threads agree without a word. Waiting for one
-- happens outside of what sysbench times, by the functions that its own loop calls (`thread_run` of its `sysbench.lua`). At its end each thread says how long its last transaction of each burst went on after it.

local ffi = require("ffi")

ffi.cdef([[
typedef struct { long seconds; long nanoseconds; } flyball_time;
int flyball_now(int clock, flyball_time *now) __asm__("clock_gettime");
int flyball_sleep(int clock, int flags, const flyball_time *until, flyball_time *left) __asm__("clock_nanosleep");
]])

local MONOTONIC, ABSOLUTE = 1, 1

sysbench.cmdline.options.burst_period_us = {"From one burst's beginning to the next one's, 0: no bursts", 0}
sysbench.cmdline.options.burst_us = {"How long a burst lasts", 0}
sysbench.cmdline.options.think_us = {"Pause after each transaction", 0}
sysbench.cmdline.options.start_delay_us = {"Pause before the first transaction", 0}

local function now_us()
   local time = ffi.new("flyball_time")
   ffi.C.flyball_now(MONOTONIC, time)
   return tonumber(time.seconds) * 1e6 + tonumber(time.nanoseconds) / 1e3
end

local function sleep_until(us)
   local time = ffi.new("flyball_time", math.floor(us / 1e6), math.floor((us % 1e6) * 1e3))
   while ffi.C.flyball_sleep(MONOTONIC, ABSOLUTE, time, nil) ~= 0 do end
end

-- sysbench's clock starts once all threads have come back from here.
local connect = thread_init

function thread_init()
   connect()
   local delay = tonumber(sysbench.opt.start_delay_us)
   if delay > 0 then sleep_until(now_us() + delay) end
end

-- Waits until a burst is on, and gives its number.
local function next_burst(period, length, whole)
   local now = now_us()
   local burst = math.floor(now / period)
   if whole or now - burst * period >= length then
      burst = burst + 1
      sleep_until(burst * period)
   end
   return burst
end

local function transaction(thread)
   ffi.C.sb_event_start(thread)
   local done, result
   repeat
      done, result = pcall(event, thread)
      -- A deadlock is tried again, as sysbench does; everything else ends the test.
      if not done and not (type(result) == "table" and result.errcode == sysbench.error.RESTART_EVENT) then
         error(result, 2)
      end
   until done
   ffi.C.sb_event_stop(thread)
   return result
end

local function report(first, last, ended, over)
   local words = {}
   for burst, us in pairs(over) do
      words[#words + 1] = string.format("%d:%d", burst - first, us)
   end
   io.write(string.format("flyball bursts: first %d last %d ended %d over %s\n", first, last, ended, table.concat(words, " ")))
end

function thread_run(thread)
   local period, length = tonumber(sysbench.opt.burst_period_us), tonumber(sysbench.opt.burst_us)
   local think = tonumber(sysbench.opt.think_us)
   local burst = period > 0 and next_burst(period, length, true) or 0
   local first, over = burst, {}
   while true do
      if period > 0 then burst = next_burst(period, length, false) end
      if not ffi.C.sb_more_events(thread) then break end
      local result = transaction(thread)
      if period > 0 then
         local late = now_us() - burst * period - length
         if late > 0 then over[burst] = late end
      end
      if result then break end
      if think > 0 then sleep_until(now_us() + think) end
   end
   if period > 0 then report(first, burst, now_us() - burst * period, over) end
end

local function warm()
   local driver = sysbench.sql.driver()
   local connection = driver:connect()
   for number = sysbench.tid % sysbench.opt.threads + 1, sysbench.opt.tables, sysbench.opt.threads do
      local name = "sbtest" .. number
      connection:query((driver:name() == "mysql" and "ANALYZE TABLE " or "ANALYZE ") .. name)
      -- Each byte of the rows, then of the index.
      connection:query("SELECT SUM(LENGTH(c) + LENGTH(pad)) FROM " .. name)
      if driver:name() == "mysql" then
         connection:query("SELECT COUNT(k) FROM " .. name .. " FORCE INDEX (k_" .. number .. ")")
      else
         connection:query("SELECT COUNT(*) FROM (SELECT k FROM " .. name .. " ORDER BY k) AS ordered")
      end
   end
end

sysbench.cmdline.commands.warm = {warm, sysbench.cmdline.PARALLEL_COMMAND}
