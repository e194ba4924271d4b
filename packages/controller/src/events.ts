/* A recorder of Kubernetes events, for code that runs without a manager. */
export * from "./events/event-recorder.ts";
