/** What went wrong; see {@link RobotsError}. */
export type RobotsErrorCode =
  /** The robot id is not a DNS label. */
  | "InvalidRobotId"
  /** The join token file is empty. */
  | "InvalidJoinTokenFile"
  /** The payload of a dispatched Job cannot be written to the file of its task. */
  | "InvalidPayload"
  /** The policy file of a robot is invalid. */
  | "InvalidPolicy"
  /** An artifact could not be fetched or unpacked. */
  | "ArtifactFailed"
  /** The robot's policy, or the manifest, forbids an artifact: another attempt would fail in the same way. */
  | "ArtifactForbidden"
  /** The robot does not have the image of a container, and its policy forbids pulling it. */
  | "ImageNotFound"
  /** A container has no command. */
  | "InvalidContainer"
  /** An init task of a task has failed. */
  | "InitFailed"
  /** A template is invalid, or refers to a value that the robot does not have. */
  | "InvalidTemplate"
  /** The embedded broker cannot listen on its address. */
  | "CannotListen"
  /** The MQTT broker rejected the credentials or a subscription. */
  | "BrokerRejected"
  /** Not a public key. */
  | "InvalidKey"
  /** The robot could not join: the server rejected its request, or its answer is not genuine. */
  | "JoinFailed"
  /** The agent's key or certificate on disk cannot be used. */
  | "InvalidIdentity"
  /** The exec server, or the robot, rejected a command. */
  | "ExecRejected"
  /** A write conflicted with other writers too often. */
  | "TooManyConflicts";

/** Error of the robots operator and its agent. */
export class RobotsError extends Error {
  override readonly name = "RobotsError";
  readonly code: RobotsErrorCode;

  constructor(code: RobotsErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
