// Package limit has what may hold back the start of something, as pure state machines: starts, ends and the clock go
// in, decisions come out, so that a replay of a log ends with the same. None of them knows of jobs, logs or items.
//
//   - Breaker and KeyedBreaker stop calls to what keeps failing.
//   - RateLimiter says how often something may start.
//   - Adaptive finds out how many calls at once, and how many in a second, a service takes.
//   - Gate waits for the reset of the limit of an AI plan.
//   - Windows and Guards are the time of day, and what the machine must have left.
//   - Ledger holds AI agents to a budget, in money and in tokens; an Account adds up what they have used.
//   - StragglerTimes finds attempts that take unusually long.
//   - SharedPool shares slots with other jobs of this machine. It is no state machine: its slots are locked files.
//
// Beside each is its block of a workflow file, such as BreakerConfig.
package limit
