import { type StatusError, statusError } from "@keelson/api-machinery";
import type { RequestAudit } from "../audit/request-audit.ts";
import type { ServedResource, UserInfo } from "../registry/served-resource.ts";
import { type Call, type EndpointContext, Ends, keyOf, Timestamps } from "./call.ts";
import { admitConnection } from "./subresources/connect.ts";
import { receiveBody } from "./object/receive-body.ts";
import { createObject } from "./write/create.ts";
import { evaluateObject } from "./write/evaluate.ts";
import { deleteObject } from "./write/delete.ts";
import { deleteCollection } from "./write/delete-collection.ts";
import { badRequest, forbidden, methodNotAllowed, notFound, statusOf, unknownResource } from "./errors.ts";
import type { Handle, Outcome, PipelineRequest } from "./outcome.ts";
import { patchObject, patchType } from "./write/patch.ts";
import type { SubresourceHandler } from "./subresources/pod-subresources.ts";
import { getObject, listObjects } from "./read/read.ts";
import { absentPath } from "./absent-path.ts";
import { requirePathSegment, requireTimeout } from "./request-checks.ts";
import { type RequestInfo, type ResourceRequestInfo, requestInfo } from "./request-info.ts";
import { scaleObject } from "./subresources/scale.ts";
import { updateObject } from "./write/update.ts";
import { SharedEvents } from "./read/shared-events.ts";
import { SharedTurns } from "./read/shared-turns.ts";
import { type OpenWatch, watchObjects } from "./read/watch.ts";
import { Warnings } from "./warnings.ts";

/** Decides whether a user may make a request (RBAC). */
export type Authorize = (user: UserInfo, info: RequestInfo) => AccessDecision | Promise<AccessDecision>;

/** An answer of {@link Authorize}. */
export interface AccessDecision {
  readonly allowed: boolean;
  /** Shown in the error. */
  readonly reason?: string | undefined;
}

/** What {@link createPipeline} takes. */
export interface PipelineOptions extends EndpointContext {
  readonly authorize: Authorize;
  /**
   * Forwards requests that another API server serves, directly after authorization. Returns undefined for requests that this server serves.
   * Default: none are forwarded.
   */
  readonly delegate?: (request: PipelineRequest, info: RequestInfo) => Promise<Outcome> | undefined;
  /** Serves non-resource paths: `/healthz`, `/apis`, `/openapi/v3`. Default: 404. */
  readonly nonResource?: (request: PipelineRequest) => Promise<Outcome | undefined>;
  /** Subresources that are not views of their object (`/pods/log`), by `<group>/<plural>/<subresource>`. `/bindings` replaces create. */
  readonly subresources?: Readonly<Record<string, SubresourceHandler>>;
}

/** Handles requests. */
export interface RequestPipeline {
  readonly handle: Handle;
  /** Ends all open watches, before a shutdown. Clients resume. */
  endWatches(): void;
  /** Number of open watches. */
  readonly openWatches: number;
}

/**
 * Creates the pipeline: authorization, then reading the body, then the endpoint, whose writes run admission and validation before storage.
 */
export function createPipeline(options: PipelineOptions): RequestPipeline {
  return new Pipeline(options);
}

class Pipeline implements RequestPipeline {
  readonly #options: PipelineOptions;
  readonly #timestamps: Timestamps;
  readonly #turns = new SharedTurns();
  readonly #sharedEvents = new SharedEvents();
  readonly #watches = new Set<OpenWatch>();

  constructor(options: PipelineOptions) {
    this.#options = options;
    this.#timestamps = new Timestamps(options.clock);
  }

  readonly handle: Handle = async (request) => {
    const warnings = new Warnings();
    const ends = new Ends();
    let isAuthorized = false;
    try {
      const info = request.info ?? requestInfo(request);
      requireTimeout(info, request.query?.["timeout"]);
      const authorizing = this.#authorize(request, info);
      if (authorizing instanceof Promise) await authorizing;
      isAuthorized = true;
      const delegated = this.#options.delegate?.(request, info);
      if (delegated !== undefined) return await delegated;
      if (info.isResource && info.resource !== "") {
        return withWarnings(await this.#handleResource(request, info, { warnings, ends }), warnings);
      }
      return (await this.#options.nonResource?.(request)) ?? absentPath(info.path, this.#options.resources);
    } catch (error) {
      const status = statusOf(error);
      if (!isAuthorized && status.reason === "Forbidden") return { kind: "status", status, headers: noSniff };
      return withWarnings({ kind: "status", status }, warnings);
    } finally {
      ends.run();
    }
  };

  endWatches(): void {
    for (const watch of this.#watches) watch.end();
  }

  get openWatches(): number {
    return this.#watches.size;
  }

  /** Requires access to the request itself, and records the decision. */
  #authorize({ user, audit }: PipelineRequest, info: RequestInfo): void | Promise<void> {
    return this.#requireAllowed(user, info, audit && ((decision) => recordDecision(audit, decision)));
  }

  #requireAllowed(user: UserInfo, info: RequestInfo, record?: (decision: AccessDecision) => void): void | Promise<void> {
    const require = (decision: AccessDecision): void => {
      record?.(decision);
      const { allowed, reason } = decision;
      if (!allowed) throw denied(user, info, reason ?? "");
    };
    const decision = this.#options.authorize(user, info);
    return decision instanceof Promise ? decision.then(require) : require(decision);
  }

  #handleResource(
    request: PipelineRequest,
    info: ResourceRequestInfo,
    own: Pick<Call, "warnings" | "ends">,
  ): Outcome | Promise<Outcome> {
    const { store, resources, admission, clock, random } = this.#options;
    const resource = resources.get(info.group, info.version, info.resource);
    if (resource === undefined || !isInScope(resource, info)) return absentPath(info.path, resources);
    if (info.isNamed) requirePathSegment(info.name);
    const call: Call = {
      store,
      resources,
      admission,
      clock,
      timestamps: this.#timestamps,
      turns: this.#turns,
      sharedEvents: this.#sharedEvents,
      random,
      request,
      query: request.query ?? {},
      info,
      resource,
      namespace: resource.scope === "Namespaced" ? info.namespace : "",
      load: { bytes: 0 },
      ...own,
      schemaErrors: { causes: [] },
    };
    if (resource.deprecationWarning !== undefined) own.warnings.add(resource.deprecationWarning);
    return info.subresource === "" ? this.#handleObject(call) : this.#handleSubresource(call);
  }

  #handleObject(call: Call): Outcome | Promise<Outcome> {
    const { resource, info } = call;
    const { verb, isNamed } = info;
    if (!(resource.verbs as readonly string[]).includes(verb)) throw methodNotAllowed(resource, verb);
    if (verb === "watch" && call.request.method !== "GET" && resource.origin === "builtin")
      throw methodNotAllowed(resource, verb);
    if (resource.origin === "custom" && (verb === "update" || verb === "patch") && !isNamed)
      throw badRequest("name must be provided");
    if (verb === "create" ? isNamed : (verb === "update" || verb === "patch") && !isNamed)
      throw methodNotAllowed(resource, verb);
    if (verb === "patch") patchType(call.request, resource);
    const receiving = verb === "patch" ? this.#requireCreateForApply(call).then(() => receiveBody(call)) : receiveBody(call);
    return receiving instanceof Promise ? receiving.then(() => this.#serveVerb(call)) : this.#serveVerb(call);
  }

  #serveVerb(call: Call): Outcome | Promise<Outcome> {
    const { resource, info } = call;
    switch (info.verb) {
      case "get":
        return getObject(call);
      case "list":
        return listObjects(call);
      case "watch":
        return watchObjects(call, (watch) => {
          this.#watches.add(watch);
          return () => this.#watches.delete(watch);
        });
      case "create":
        return (this.#options.subresources?.[`${info.group}/${info.resource}`] ?? createObject)(call);
      case "update":
        return updateObject(call);
      case "patch":
        return patchObject(call);
      case "delete":
        return deleteObject(call);
      case "deletecollection":
        return deleteCollection(call);
      default:
        throw methodNotAllowed(resource, info.verb);
    }
  }

  /** An apply to a missing object also needs permission to create. */
  async #requireCreateForApply(call: Call): Promise<void> {
    const { request, info, store } = call;
    if (!(request.headers?.["content-type"] ?? "").startsWith("application/apply-patch")) return;
    if (store.get(keyOf(call)) === undefined) await this.#requireAllowed(request.user, { ...info, verb: "create" });
  }

  async #handleSubresource(call: Call): Promise<Outcome> {
    const { resource, info } = call;
    const { subresource, verb } = info;
    const own = resource.subresources?.find(({ name }) => name === subresource);
    const handler = this.#options.subresources?.[`${info.group}/${info.resource}/${subresource}`];
    if (handler !== undefined) {
      if (own?.isProxy === true) return handler(call);
      if (own !== undefined && !(own.verbs as readonly string[]).includes(verb)) throw methodNotAllowed(resource, verb);
      await receiveBody(call);
      await admitConnection(call);
      return handler(call);
    }
    if (info.rest !== "") throw resource.origin === "custom" ? notFound(resource, info.name) : unknownResource();
    if (subresource === "scale" && resource.scale !== undefined) {
      await receiveBody(call);
      return scaleObject(call);
    }
    if (own === undefined && !(subresource === "status" && resource.hasStatus)) {
      throw resource.origin === "custom" ? notFound(resource, info.name) : unknownResource();
    }
    const verbs: readonly string[] = own?.verbs ?? ["get", "patch", "update"];
    if (!verbs.includes(verb)) throw methodNotAllowed(resource, verb);
    await receiveBody(call);
    if (verb === "get") return getObject(call);
    if (verb === "update") return updateObject(call);
    if (verb === "patch") return patchObject(call);
    if (verb !== "create" || own?.evaluate === undefined) throw methodNotAllowed(resource, verb);
    const { group = resource.group, version = resource.version, kind, schema = resource.schema, evaluate } = own;
    return evaluateObject(call, {
      resource: { ...resource, group, version, kind, schema, strategy: {}, hasStatus: false, origin: "builtin" },
      evaluate,
      dropsUid: false,
    });
  }
}

/** A named object needs its namespace in the path. A collection across all namespaces does not. */
function isInScope(resource: ServedResource, info: ResourceRequestInfo): boolean {
  const isNamespaced = resource.scope === "Namespaced";
  const isNamespaceItself = info.resource === "namespaces" && info.isNamed && info.name === info.namespace;
  const isScoped = isNamespaced ? info.namespace !== "" : info.namespace === "" || isNamespaceItself;
  if (isScoped) return true;
  // kube-apiserver has no path to write custom resources of all namespaces.
  return isNamespaced && !info.isNamed && (resource.origin === "builtin" || info.verb === "list" || info.verb === "watch");
}

/** kube-apiserver sends this header when authorization fails. */
const noSniff = { "x-content-type-options": "nosniff" } as const;

function withWarnings(outcome: Outcome, { texts: warnings }: Warnings): Outcome {
  if (warnings.length === 0 || outcome.kind === "document" || outcome.kind === "raw" || outcome.kind === "upgrade")
    return outcome;
  return { ...outcome, warnings };
}

function recordDecision(audit: RequestAudit, { allowed, reason }: AccessDecision): void {
  audit.annotate("authorization.k8s.io/decision", allowed ? "allow" : "forbid");
  audit.annotate("authorization.k8s.io/reason", reason ?? "");
}

function denied(user: UserInfo, info: RequestInfo, reason: string): StatusError {
  const because = reason === "" ? "" : `: ${reason}`;
  const subject = `User ${JSON.stringify(user.username)} cannot ${info.verb}`;
  if (!info.isResource)
    return statusError("Forbidden", `forbidden: ${subject} path ${JSON.stringify(info.path)}${because}`, {});
  const resource = info.subresource === "" ? info.resource : `${info.resource}/${info.subresource}`;
  const where = info.namespace === "" ? "at the cluster scope" : `in the namespace ${JSON.stringify(info.namespace)}`;
  const message = `${subject} resource ${JSON.stringify(resource)} in API group ${JSON.stringify(info.group)} ${where}${because}`;
  return forbidden({ group: info.group, plural: info.resource }, info.name, message);
}
