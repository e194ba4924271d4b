/* Clocks, timers, timestamps and durations. */
export * from "./values/clock.ts";
export * from "./values/duration.ts";
export * from "./values/time.ts";
