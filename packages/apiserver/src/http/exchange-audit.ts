import type { IncomingMessage } from "node:http";
import { TLSSocket } from "node:tls";
import type { DeepReadonly, Status } from "@keelson/api-machinery";
import type { AuditRecord } from "../audit/audit-record.ts";
import type { Auditor } from "../audit/auditor.ts";
import { sourceAddresses } from "../audit/source-addresses.ts";
import type { UserInfo } from "../registry/served-resource.ts";
import type { Target } from "./request-target.ts";

/** Source address of requests on a Unix socket, whose peers are on this machine. */
const loopback = "127.0.0.1";

/** The audit record of an HTTP request, which begins with its authentication. Costs nothing without an auditor. */
export class ExchangeAudit {
  readonly #auditor: Auditor | undefined;
  readonly #request: IncomingMessage;
  readonly #target: Target;
  readonly #auditId: string;
  #hasBegun = false;
  #record: AuditRecord | undefined;

  constructor(auditor: Auditor | undefined, request: IncomingMessage, target: Target, auditId: string) {
    this.#auditor = auditor;
    this.#request = request;
    this.#target = target;
    this.#auditId = auditId;
  }

  /** Undefined before authentication, and if the request is not recorded. */
  get record(): AuditRecord | undefined {
    return this.#record;
  }

  /** Begins the record. `sender` is undefined if authentication failed. */
  begin(sender: UserInfo | undefined): void {
    if (this.#auditor === undefined || this.#hasBegun) return;
    this.#hasBegun = true;
    const { method = "GET", url = "/", headers, socket } = this.#request;
    this.#record = this.#auditor.begin({
      auditId: this.#auditId,
      uri: url,
      user: sender,
      sourceIps: sourceAddresses(headers, socket instanceof TLSSocket ? socket.remoteAddress : loopback),
      userAgent: headers["user-agent"],
      method,
      path: this.#target.path,
      query: this.#target.query,
    });
  }

  /** Records the user that the request is served as. */
  serveAs(user: UserInfo): void {
    this.begin(user);
    this.#record?.serveAs(user);
  }

  /** Records a failure, also one of authentication. */
  fail(status: DeepReadonly<Status>): void {
    this.begin(undefined);
    this.#record?.fail(status);
  }

  /** Records the end of the response. `code` is undefined if none was sent. */
  complete(code: number | undefined): void {
    this.#record?.complete(code);
  }
}
