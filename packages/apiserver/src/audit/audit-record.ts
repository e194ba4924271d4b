import { type DeepReadonly, isJsonObject, type JsonObject, type Status, statusError } from "@keelson/api-machinery";
import { type Clock, formatMicroTime } from "@keelson/api-machinery/time";
import type { EncodedObject, ListOutcome, Outcome } from "../endpoints/outcome.ts";
import type { RequestInfo, ResourceRequestInfo } from "../endpoints/request-info.ts";
import { isLongRunning } from "../flowcontrol/flow-controller.ts";
import type { UserInfo } from "../registry/served-resource.ts";
import { auditLevels, type AuditLevel, type AuditStage } from "./audit-policy.ts";
import type { AuditSettings } from "./match-rule.ts";
import type { RequestAudit } from "./request-audit.ts";

/** A request as the audit log sees it before it is served. */
export interface AuditedRequest {
  /** The `Audit-ID` of the response. */
  readonly auditId: string;
  /** Raw path and query. */
  readonly uri: string;
  readonly info: RequestInfo;
  /** The authenticated user, before impersonation. Undefined if authentication failed. */
  readonly user: UserInfo | undefined;
  /** Addresses of the client and of proxies. Empty for requests within the process. */
  readonly sourceIps: readonly string[];
  readonly userAgent: string | undefined;
}

/** What {@link AuditRecord} takes. */
export interface AuditRecordOptions {
  readonly settings: AuditSettings;
  readonly clock: Pick<Clock, "now">;
  /** Receives each event as one line of JSON, with its line break. */
  readonly write: (line: string) => void;
}

/** Bodies of a request that are larger together are left out, as with kube-apiserver's `--audit-log-truncate-enabled`. */
const maxBodyBytes = 4 * 1024 * 1024;
const maxUserAgentLength = 1024;

/** Fields of an object reference that come from the body. */
interface ReferenceFields {
  readonly name?: string;
  readonly namespace?: string;
  readonly uid?: string;
  readonly resourceVersion?: string;
}

/** The events of one request (audit.k8s.io/v1 Event). Bodies are serialized once, and only if the level requires them. */
export class AuditRecord implements RequestAudit {
  readonly #request: AuditedRequest;
  readonly #options: AuditRecordOptions;
  readonly #receivedAt: number;
  readonly #annotations = new Map<string, string>();
  #impersonated: UserInfo | undefined;
  #requestObject: string | undefined;
  #responseObject: string | undefined;
  #responseStatus: JsonObject | undefined;
  /** Fields of the object's reference that only its body has. */
  #objectFields: ReferenceFields = {};
  #bodyBytes = 0;
  #hasStarted = false;
  #isComplete = false;

  /** Records the stage `RequestReceived`, unless authentication failed. */
  constructor(request: AuditedRequest, options: AuditRecordOptions) {
    this.#request = request;
    this.#options = options;
    this.#receivedAt = options.clock.now();
    if (request.user !== undefined) this.#emit("RequestReceived");
  }

  /** Records the user that the request is served as, if it differs from its sender. */
  serveAs(user: UserInfo): void {
    if (user !== this.#request.user) this.#impersonated = user;
  }

  annotate(key: string, value: string): void {
    if (!this.#annotations.has(key)) this.#annotations.set(key, value);
  }

  receive(body: unknown, isPatch: boolean): void {
    if (body === undefined) return;
    if (!isPatch && isJsonObject(body) && isJsonObject(body["metadata"]))
      this.#objectFields = referenceFields(body["metadata"]);
    if (!this.#includes("Request")) return;
    const { omitManagedFields } = this.#options.settings;
    this.#requestObject = this.#bounded(JSON.stringify(omitManagedFields ? withoutManagedFields(body) : body));
  }

  /** Records the result. A long-running request has the stage `ResponseStarted`. `upgradeStatus` is the response to an upgrade. */
  respond(outcome: Outcome, upgradeStatus = 101): void {
    if (outcome.kind === "status") return this.fail(outcome.status);
    this.#responseStatus = { metadata: {}, code: outcome.kind === "upgrade" ? upgradeStatus : codeOf(outcome) };
    if (this.#includes("RequestResponse")) {
      if (outcome.kind === "object") this.#responseObject = this.#bounded(this.#textOf(outcome.object));
      else if (outcome.kind === "list") this.#responseObject = this.#bounded(this.#listText(outcome));
    }
    if (isLongRunning(this.#request.info)) this.#start();
  }

  /** Records a Status as the response. */
  fail(status: DeepReadonly<Status>): void {
    const { status: result, message, reason, details, code } = status;
    this.#responseStatus = JSON.parse(
      JSON.stringify({ metadata: {}, status: result, message, reason, details, code }),
    ) as JsonObject;
    if (this.#includes("RequestResponse")) this.#responseObject = this.#bounded(JSON.stringify(status));
    if (this.#request.user === undefined || isLongRunning(this.#request.info)) this.#start();
  }

  /** Records a fault of the server instead of a response. */
  panic(error: unknown): void {
    if (this.#isComplete) return;
    this.#isComplete = true;
    const text = error instanceof Error ? error.message : String(error);
    const { status, reason, message, code } = statusError("InternalError", `APIServer panic'd: ${text}`).status;
    this.#responseStatus = {
      metadata: {},
      status: status ?? "Failure",
      message: message ?? "",
      reason: reason ?? "",
      code: code ?? 500,
    };
    this.#emit("Panic");
  }

  /** Records that nothing more is sent. `code` is the status of the response, if it had one. */
  complete(code?: number): void {
    if (this.#isComplete) return;
    this.#isComplete = true;
    if (this.#request.user === undefined) return;
    if (this.#responseStatus === undefined) {
      this.#responseStatus = { metadata: {}, status: "Success", message: "Connection closed early", code: 200 };
      if (isLongRunning(this.#request.info)) this.#start();
    } else if (code !== undefined) this.#responseStatus = { ...this.#responseStatus, code };
    this.#emit("ResponseComplete");
  }

  #start(): void {
    if (this.#hasStarted) return;
    this.#hasStarted = true;
    this.#emit("ResponseStarted");
  }

  #includes(level: AuditLevel): boolean {
    return auditLevels.indexOf(this.#options.settings.level) >= auditLevels.indexOf(level);
  }

  /** The body, unless it is too large. */
  #bounded(text: string | undefined): string | undefined {
    if (text === undefined) return undefined;
    this.#bodyBytes += text.length;
    if (this.#bodyBytes <= maxBodyBytes) return text;
    this.#requestObject = undefined;
    this.annotate("audit.k8s.io/truncated", "true");
    return undefined;
  }

  /** The JSON of an object. Reuses the bytes of the response if nothing is omitted. */
  #textOf({ bytes, object }: EncodedObject): string {
    const { omitManagedFields } = this.#options.settings;
    if (omitManagedFields && object.metadata.managedFields !== undefined) return JSON.stringify(withoutManagedFields(object));
    return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString();
  }

  /** The JSON of a list. Items that are read while the list is sent are not recorded. */
  #listText({ items, remaining, resource, listMeta }: ListOutcome): string | undefined {
    let bytes = 0;
    for (const item of items) bytes += item.bytes.length;
    if (remaining !== undefined || bytes > maxBodyBytes) {
      this.annotate("audit.k8s.io/truncated", "true");
      return undefined;
    }
    const apiVersion = resource.group === "" ? resource.version : `${resource.group}/${resource.version}`;
    const head = JSON.stringify({ kind: resource.listKind, apiVersion, metadata: listMeta });
    return `${head.slice(0, -1)},"items":[${items.map((item) => this.#textOf(item)).join(",")}]}`;
  }

  #emit(stage: AuditStage): void {
    const { settings, clock, write } = this.#options;
    if (settings.omitStages.has(stage)) return;
    const { auditId, uri, info, user, sourceIps, userAgent } = this.#request;
    const fields = {
      ...{ kind: "Event", apiVersion: "audit.k8s.io/v1", level: settings.level, auditID: auditId, stage, requestURI: uri },
      verb: info.verb,
      user: user === undefined ? {} : userFields(user),
      ...(this.#impersonated === undefined ? {} : { impersonatedUser: userFields(this.#impersonated) }),
      ...(sourceIps.length === 0 ? {} : { sourceIPs: sourceIps }),
      ...(userAgent === undefined || userAgent === "" ? {} : { userAgent: truncated(userAgent) }),
      ...(info.isResource ? { objectRef: this.#reference(info) } : {}),
      ...(this.#responseStatus === undefined ? {} : { responseStatus: this.#responseStatus }),
    };
    const end = {
      requestReceivedTimestamp: formatMicroTime(this.#receivedAt),
      stageTimestamp: formatMicroTime(stage === "RequestReceived" ? this.#receivedAt : clock.now()),
      ...(this.#annotations.size === 0 ? {} : { annotations: Object.fromEntries([...this.#annotations].sort()) }),
    };
    const request = this.#requestObject === undefined ? "" : `,"requestObject":${this.#requestObject}`;
    const response = this.#responseObject === undefined ? "" : `,"responseObject":${this.#responseObject}`;
    write(`${JSON.stringify(fields).slice(0, -1)}${request}${response},${JSON.stringify(end).slice(1)}\n`);
  }

  #reference({ resource, namespace, name, group, version, subresource }: ResourceRequestInfo): JsonObject {
    const fields = this.#objectFields;
    const reference = {
      resource,
      namespace: namespace || (fields.namespace ?? ""),
      name: name || (fields.name ?? ""),
      uid: fields.uid ?? "",
      apiGroup: group,
      apiVersion: version,
      resourceVersion: fields.resourceVersion ?? "",
      subresource,
    };
    return Object.fromEntries(Object.entries(reference).filter(([, value]) => value !== ""));
  }
}

function codeOf(outcome: Exclude<Outcome, { readonly kind: "status" | "upgrade" }>): number {
  return outcome.kind === "list" || outcome.kind === "watch" ? 200 : outcome.status;
}

function userFields({ username, uid, groups, extra }: UserInfo): object {
  return {
    username,
    ...(uid === undefined || uid === "" ? {} : { uid }),
    ...(groups.length === 0 ? {} : { groups }),
    ...(extra === undefined || Object.keys(extra).length === 0 ? {} : { extra }),
  };
}

function referenceFields(metadata: JsonObject): ReferenceFields {
  const text = (field: string): string => (typeof metadata[field] === "string" ? metadata[field] : "");
  return { name: text("name"), namespace: text("namespace"), uid: text("uid"), resourceVersion: text("resourceVersion") };
}

function truncated(userAgent: string): string {
  return userAgent.length > maxUserAgentLength ? `${userAgent.slice(0, maxUserAgentLength)}...TRUNCATED` : userAgent;
}

/** A copy without `metadata.managedFields`, including of the items of a list. */
function withoutManagedFields(value: unknown): unknown {
  if (!isJsonObject(value)) return value;
  const { metadata, items } = value;
  const copy: Record<string, unknown> = { ...value };
  if (isJsonObject(metadata) && metadata["managedFields"] !== undefined) {
    const { managedFields: _, ...rest } = metadata;
    copy["metadata"] = rest;
  }
  if (Array.isArray(items)) copy["items"] = items.map(withoutManagedFields);
  return copy;
}
