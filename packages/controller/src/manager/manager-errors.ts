/** A write was refused because this process no longer leads: another process may be writing. */
export class NotLeaderError extends Error {
  override readonly name = "NotLeaderError";
  readonly code = "NotLeader";
}

/** The manager is stopping or has stopped. */
export class ManagerStoppedError extends Error {
  override readonly name = "ManagerStoppedError";
  readonly code = "ManagerStopped";
}
