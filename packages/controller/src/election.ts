/* Leader election, for code that runs without a manager. */
export { linuxProcesses, type ProcessInspector } from "./election/holder-process.ts";
export * from "./election/leader-election.ts";
