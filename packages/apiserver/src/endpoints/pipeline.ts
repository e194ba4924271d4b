import { statusError } from "@keelson/api-machinery";
import type { UserInfo } from "../registry/served-resource.ts";
import { type Call, type EndpointContext, keyOf } from "./call.ts";
import { createObject } from "./write/create.ts";
import { deleteObject } from "./write/delete.ts";
import { deleteCollection } from "./write/delete-collection.ts";
import { encodePlain } from "./object/serve-object.ts";
import { forbidden, methodNotAllowed, statusOf, unknownResource } from "./errors.ts";
import type { Handle, Outcome, PipelineRequest } from "./outcome.ts";
import { patchObject } from "./write/patch.ts";
import type { SubresourceHandler } from "./subresources/pod-subresources.ts";
import { getObject, listObjects } from "./read/read.ts";
import { type RequestInfo, type ResourceRequestInfo, requestInfo } from "./request-info.ts";
import { readBody } from "./object/body.ts";
import { scaleObject } from "./subresources/scale.ts";
import { updateObject } from "./write/update.ts";
import { type OpenWatch, watchObjects } from "./read/watch.ts";

/** Says who may do what (RBAC). */
export type Authorize = (
  user: UserInfo,
  info: RequestInfo,
) => Promise<{ readonly allowed: boolean; readonly reason?: string | undefined }>;

/** What {@link createPipeline} takes. */
export interface PipelineOptions extends EndpointContext {
  readonly authorize: Authorize;
  /** Answers what is no resource: `/healthz`, `/apis`, `/openapi/v3`. Undefined: there is nothing there. */
  readonly nonResource?: (request: PipelineRequest) => Promise<Outcome | undefined>;
  /**
   * Subresources that are no view of their object, by `<group>/<plural>/<subresource>`: `/pods/log`. Without a subresource
   * (`/bindings`), what a create does instead of storing.
   */
  readonly subresources?: Readonly<Record<string, SubresourceHandler>>;
}

/** From requests to answers. */
export interface RequestPipeline {
  readonly handle: Handle;
  /** Ends every open watch, as before a shutdown; clients resume elsewhere or later. */
  endWatches(): void;
  /** How many watches are open. */
  readonly openWatches: number;
}

/** The largest body that is taken; as kube-apiserver. */
export const maxBodyBytes = 3 * 1024 * 1024;

/** Makes the pipeline: authorization, then the endpoint, whose writes run admission and validation before storage. */
export function createPipeline(options: PipelineOptions): RequestPipeline {
  const { authorize, nonResource, resources, store, admission, clock, random } = options;
  const watches = new Set<OpenWatch>();
  const onOpen = (watch: OpenWatch): (() => void) => {
    watches.add(watch);
    return () => watches.delete(watch);
  };

  const requireAllowed = async (user: UserInfo, info: RequestInfo): Promise<void> => {
    const { allowed, reason } = await authorize(user, info);
    if (!allowed) throw denied(user, info, reason ?? "");
  };

  const handleResource = async (request: PipelineRequest, info: ResourceRequestInfo, warnings: string[]): Promise<Outcome> => {
    await requireAllowed(request.user, info);
    const resource = resources.get(info.group, info.version, info.resource);
    if (resource === undefined) throw unknownResource();
    const isNamespaced = resource.scope === "Namespaced";
    const isOfItself = info.resource === "namespaces" && info.isNamed && info.name === info.namespace;
    const isScoped = isNamespaced ? info.namespace !== "" : info.namespace === "" || isOfItself;
    // An object needs its namespace in the path; a collection of all namespaces does not.
    if (!isScoped && (info.isNamed || !isNamespaced)) throw unknownResource();
    const call: Call = {
      store,
      resources,
      admission,
      clock,
      random,
      request,
      query: request.query ?? {},
      info,
      resource,
      namespace: isNamespaced ? info.namespace : "",
      warnings,
      schemaFaults: { causes: [] },
    };
    if (resource.deprecationWarning !== undefined) warnings.push(resource.deprecationWarning);
    if (info.subresource !== "") return handleSubresource(call);
    if (!(resource.verbs as readonly string[]).includes(info.verb)) throw methodNotAllowed(resource);
    requireWellFormed(request);
    switch (info.verb) {
      case "get":
        return getObject(call);
      case "list":
        return listObjects(call);
      case "watch":
        return watchObjects(call, onOpen);
      case "create":
        if (info.isNamed) throw methodNotAllowed(resource);
        return (options.subresources?.[`${info.group}/${info.resource}`] ?? createObject)(call);
      case "update":
        if (!info.isNamed) throw methodNotAllowed(resource);
        return updateObject(call);
      case "patch":
        if (!info.isNamed) throw methodNotAllowed(resource);
        await requireCreateForApply(call);
        return patchObject(call);
      case "delete":
        return deleteObject(call);
      case "deletecollection":
        return deleteCollection(call);
      default:
        throw methodNotAllowed(resource);
    }
  };

  /** An apply that would create needs the right to create. */
  const requireCreateForApply = async (call: Call): Promise<void> => {
    const { request, info, store } = call;
    if (!(request.headers?.["content-type"] ?? "").startsWith("application/apply-patch")) return;
    if (store.get(keyOf(call)) === undefined) await requireAllowed(request.user, { ...info, verb: "create" });
  };

  const handleSubresource = async (call: Call): Promise<Outcome> => {
    const { resource, info, request } = call;
    const { subresource, verb } = info;
    const handler = options.subresources?.[`${info.group}/${info.resource}/${subresource}`];
    if (handler !== undefined) {
      const known = resource.subresources?.find(({ name }) => name === subresource)?.verbs as readonly string[] | undefined;
      if (known?.includes(verb) === false) throw methodNotAllowed(resource);
      requireWellFormed(request);
      return handler(call);
    }
    if (info.rest !== "") throw unknownResource();
    if (subresource === "scale" && resource.scale !== undefined) {
      requireWellFormed(request);
      return scaleObject(call);
    }
    const own = resource.subresources?.find(({ name }) => name === subresource);
    if (own === undefined && !(subresource === "status" && resource.hasStatus)) throw unknownResource();
    const verbs: readonly string[] = own?.verbs ?? ["get", "patch", "update"];
    if (!verbs.includes(verb)) throw methodNotAllowed(resource);
    requireWellFormed(request);
    if (verb === "get") return getObject(call);
    if (verb === "update") return updateObject(call);
    if (verb === "patch") return patchObject(call);
    if (verb !== "create" || own?.evaluate === undefined) throw methodNotAllowed(resource);
    const { group = resource.group, version = resource.version, kind } = own;
    const object = readBody({ ...resource, group, version, kind, origin: "builtin" }, request.body);
    const evaluated = await own.evaluate(object, { user: request.user, namespace: call.namespace, name: info.name });
    return { kind: "object", status: 201, object: encodePlain(evaluated), resource, subresource };
  };

  return {
    async handle(request) {
      const warnings: string[] = [];
      try {
        const info = requestInfo(request);
        if (!methods.has(request.method)) throw methodNotAllowed();
        if ((request.bodyBytes ?? 0) > maxBodyBytes) {
          throw statusError(
            "RequestEntityTooLarge",
            `limit is ${maxBodyBytes} bytes; the request's body is ${request.bodyBytes} bytes`,
          );
        }
        if (info.isResource && info.resource !== "")
          return withWarnings(await handleResource(request, info, warnings), warnings);
        await requireAllowed(request.user, info);
        return (await nonResource?.(request)) ?? { kind: "status", status: unknownResource().status };
      } catch (error) {
        return withWarnings({ kind: "status", status: statusOf(error) }, warnings);
      }
    },
    endWatches() {
      for (const watch of watches) watch.end();
    },
    get openWatches() {
      return watches.size;
    },
  };
}

function requireWellFormed({ fault }: PipelineRequest): void {
  if (fault !== undefined) throw fault;
}

const methods: ReadonlySet<string> = new Set(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]);

function withWarnings(outcome: Outcome, warnings: readonly string[]): Outcome {
  if (warnings.length === 0 || outcome.kind === "document" || outcome.kind === "raw" || outcome.kind === "upgrade")
    return outcome;
  return { ...outcome, warnings };
}

function denied(user: UserInfo, info: RequestInfo, reason: string): Error {
  const because = reason === "" ? "" : `: ${reason}`;
  const who = `User ${JSON.stringify(user.username)} cannot ${info.verb}`;
  if (!info.isResource) return statusError("Forbidden", `forbidden: ${who} path ${JSON.stringify(info.path)}${because}`, {});
  const what = info.subresource === "" ? info.resource : `${info.resource}/${info.subresource}`;
  const where = info.namespace === "" ? "at the cluster scope" : `in the namespace ${JSON.stringify(info.namespace)}`;
  const why = `${who} resource ${JSON.stringify(what)} in API group ${JSON.stringify(info.group)} ${where}${because}`;
  return forbidden({ group: info.group, plural: info.resource }, info.name, why);
}
