/**
 * What went wrong in a component of the cluster:
 *
 * - `AddressesExhausted`: the Pod network has no free address.
 * - `CommandFailed`: a program of the machine failed; the message has its error output.
 * - `Discovery`: the API server rejected a discovery request.
 * - `InvalidResponse`: the API server's response lacks a required field.
 * - `NotEmpty`: objects of a namespace remain.
 * - `OutsideDirectory`: a path is outside the directory that the component owns.
 * - `Timeout`: a peer did not respond in time.
 */
export type ClusterErrorCode =
  | "AddressesExhausted"
  | "CommandFailed"
  | "Discovery"
  | "InvalidResponse"
  | "NotEmpty"
  | "OutsideDirectory"
  | "Timeout";

/** An error of a cluster component that is not an API error. */
export class ClusterError extends Error {
  override readonly name = "ClusterError";
  readonly code: ClusterErrorCode;

  constructor(code: ClusterErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
