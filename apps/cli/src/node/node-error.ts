/** Why a machine cannot join a cluster. The message names the next step. */
export class NodeError extends Error {
  override readonly name = "NodeError";
  readonly code: "NameTaken" | "CertificateRefused" | "NoAddress" | "NoRoute";

  constructor(code: NodeError["code"], message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
