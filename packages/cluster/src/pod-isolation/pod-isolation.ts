import { type DeepReadonly, isJsonObject, jsonEquals, type KubernetesObject, statusError } from "@keelson/api-machinery";
import type { OwnerReference } from "@keelson/api-machinery";
import { usesHostPath } from "./pod-paths.ts";

/** Annotation of an object whose Pods must be isolated from the machine. Set by admission, and never removed. */
export const isolationAnnotation = "keelson.dev/pod-isolation";
const required = "required";

/** A user of the API. */
export interface RequestUser {
  readonly username: string;
  readonly groups: readonly string[];
}

/** A write under admission. The API server's `AdmissionRequest` is one. */
export interface IsolationRequest {
  readonly operation: "CREATE" | "UPDATE" | "DELETE" | "CONNECT";
  readonly resource: { readonly group: string; readonly plural: string; readonly origin: "builtin" | "custom" };
  readonly subresource: string;
  readonly namespace: string;
  readonly name: string;
  object: KubernetesObject | undefined;
  readonly oldObject: DeepReadonly<KubernetesObject> | undefined;
  readonly user: RequestUser;
}

/** An admission step. Fits the API server's `AdmissionStep`. */
export interface PodIsolationStep {
  readonly name: string;
  mutate(request: IsolationRequest): Promise<boolean>;
}

/** Options of {@link podIsolation}. */
export interface PodIsolationOptions {
  /** Whether a user has verb `use` on the RuntimeClass of this name (runtimeclasses.node.k8s.io, cluster scope). */
  readonly mayUse: (user: RequestUser, runtimeClass: string) => boolean;
  /** The handler of a RuntimeClass; `undefined` if it does not exist. */
  readonly handlerOf: (runtimeClass: string) => Promise<string | undefined>;
  /** The object that an owner reference names; `undefined` if it does not exist or its kind is not served. */
  readonly ownerOf: (namespace: string, reference: OwnerReference) => Promise<DeepReadonly<KubernetesObject> | undefined>;
  /** The handlers of the node's runtimes, the default first. */
  readonly handlers: () => readonly string[] | Promise<readonly string[]>;
}

/** The handler of bare processes, and the name of its RuntimeClass. */
const processHandler = "process";

/** Built-in kinds with a Pod template. */
const workloads: ReadonlySet<string> = new Set([
  "apps/controllerrevisions",
  "apps/daemonsets",
  "apps/deployments",
  "apps/replicasets",
  "apps/statefulsets",
  "batch/cronjobs",
  "batch/jobs",
  "/podtemplates",
  "/replicationcontrollers",
]);

/**
 * Decides which Pods may run as bare processes, that is with all permissions of the node's user.
 *
 * **Rule.** A Pod may run as a bare process if its creator has verb `use` on the RuntimeClass `process` (or the class that it names,
 * if the handler of that is `process`). Every other Pod runs in an isolated runtime, which is written to `spec.runtimeClassName`, and
 * must not mount host paths; it is rejected if the node has no isolated runtime.
 *
 * **Controllers.** kube-controller-manager and the operators create Pods on behalf of others. They are *delegates*: what they create
 * may run as a process only if all its owners may, and it has one. An object (a workload or a custom resource) loses that permanently,
 * by the annotation {@link isolationAnnotation}, when a user without the permission creates it or changes anything but its metadata, status
 * and `spec.replicas`. So neither a Deployment of a namespace's admin, nor a change of another user's Deployment, nor a custom resource
 * from which an operator creates Pods, leads to a process. An owner that does not exist counts as isolated. To lift the annotation,
 * delete the object and create it as a user with the permission.
 */
export function podIsolation(options: PodIsolationOptions): PodIsolationStep {
  return {
    name: "PodIsolation",
    async mutate(request) {
      const { operation, resource, subresource, object } = request;
      const isPod = resource.group === "" && resource.plural === "pods";
      if (isPod && subresource === "ephemeralcontainers" && request.oldObject !== undefined) {
        await admitEphemeralContainers(request.oldObject, request, options);
        return false;
      }
      if (object === undefined || subresource !== "") return false;
      if (isPod) return operation === "CREATE" && admitPod(object, request, options);
      if (resource.origin === "builtin" && !workloads.has(`${resource.group}/${resource.plural}`)) return false;
      if (operation !== "CREATE" && operation !== "UPDATE") return false;
      if (!(await mustIsolate(object, request, options))) return false;
      if (object.metadata.annotations?.[isolationAnnotation] === required) return false;
      object.metadata.annotations = { ...object.metadata.annotations, [isolationAnnotation]: required };
      return true;
    },
  };
}

/** Delegates act on behalf of the owners of what they write: controllers in kube-system, and operators in keelson-system. */
function isDelegate({ username, groups }: RequestUser): boolean {
  return (
    username === "system:kube-controller-manager" ||
    groups.includes("system:serviceaccounts:kube-system") ||
    groups.includes("system:serviceaccounts:keelson-system")
  );
}

async function mustIsolate(
  object: DeepReadonly<KubernetesObject>,
  request: IsolationRequest,
  options: PodIsolationOptions,
): Promise<boolean> {
  const { operation, oldObject, user } = request;
  if (isMarked(object) || isMarked(oldObject)) return true;
  if (operation === "UPDATE" && jsonEquals(contentOf(object), contentOf(oldObject))) return false;
  return isDelegate(user) ? !(await areOwnersTrusted(object, request, options)) : !options.mayUse(user, processHandler);
}

function isMarked(object: DeepReadonly<KubernetesObject> | undefined): boolean {
  return object?.metadata.annotations?.[isolationAnnotation] === required;
}

/** What counts as a change of an object: everything but its metadata, its status and its scale. */
function contentOf(object: DeepReadonly<KubernetesObject> | undefined): unknown {
  const { metadata: _metadata, status: _status, spec, ...rest } = { ...object } as Record<string, unknown>;
  if (!isJsonObject(spec)) return { ...rest, spec };
  const { replicas: _replicas, ...content } = spec;
  return { ...rest, spec: content };
}

/** Whether an object has owners and none of them must be isolated. */
async function areOwnersTrusted(
  object: DeepReadonly<KubernetesObject>,
  { namespace }: IsolationRequest,
  { ownerOf }: PodIsolationOptions,
): Promise<boolean> {
  const references = [...(object.metadata.ownerReferences ?? []), ...revisionOf(object)];
  if (references.length === 0) return false;
  for (const reference of references) {
    const owner = await ownerOf(namespace, reference);
    if (owner === undefined || isMarked(owner)) return false;
    if (reference.uid !== "" && owner.metadata.uid !== reference.uid) return false;
  }
  return true;
}

/** The ControllerRevision that a StatefulSet's or DaemonSet's Pod was created from: its template need not be the owner's. */
function revisionOf({ metadata }: DeepReadonly<KubernetesObject>): readonly OwnerReference[] {
  const owner = metadata.ownerReferences?.find(({ controller }) => controller);
  const name = metadata.labels?.["controller-revision-hash"];
  if (owner?.kind !== "StatefulSet" || name === undefined) return [];
  return [{ apiVersion: "apps/v1", kind: "ControllerRevision", name, uid: "" }];
}

async function admitPod(pod: KubernetesObject, request: IsolationRequest, options: PodIsolationOptions): Promise<boolean> {
  const spec = (pod as { spec?: { runtimeClassName?: string; volumes?: readonly object[] } }).spec;
  if (spec === undefined) return false;
  const { runtimeClassName: className } = spec;
  const handler = className === undefined ? (await options.handlers())[0] : await options.handlerOf(className);
  const isTrusted = isDelegate(request.user)
    ? await areOwnersTrusted(pod, request, options)
    : options.mayUse(request.user, className !== undefined && handler === processHandler ? className : processHandler);
  if (isTrusted && !isMarked(pod)) return false;
  if (className !== undefined && handler === undefined) {
    throw rejected(pod, request, `RuntimeClass ${JSON.stringify(className)} not found`);
  }
  if (usesHostPath(spec)) {
    throw rejected(pod, request, `hostPath volumes require verb "use" on runtimeclasses.node.k8s.io "${processHandler}"`);
  }
  if (className !== undefined && handler !== processHandler) return false;
  const isolated = (await options.handlers()).find((name) => name !== processHandler);
  if (className !== undefined || isolated === undefined) {
    const isolatedNames = (await options.handlers()).filter((name) => name !== processHandler);
    const hint =
      isolatedNames.length === 0
        ? "and this node has no isolated runtime: install bubblewrap or containerd"
        : `set spec.runtimeClassName to ${isolatedNames.join(" or ")}`;
    throw rejected(
      pod,
      request,
      `running as a process of the node requires verb "use" on runtimeclasses.node.k8s.io ${JSON.stringify(className ?? processHandler)}; ${hint}`,
    );
  }
  // Written down even if it is the node's default, which can change.
  spec.runtimeClassName = isolated;
  return true;
}

/**
 * Rejects containers that are added to a Pod with more permissions than their creator has: in a bare process, or with the user and the files
 * of the node. `pod` is the stored Pod: everything but the containers of the request is discarded later, so it proves nothing. A Pod
 * whose RuntimeClass was deleted may still run as a process.
 */
async function admitEphemeralContainers(
  pod: DeepReadonly<KubernetesObject>,
  request: IsolationRequest,
  options: PodIsolationOptions,
): Promise<void> {
  const { spec = {} } = pod as { readonly spec?: { readonly runtimeClassName?: string; readonly volumes?: readonly object[] } };
  const { runtimeClassName: className } = spec;
  const handler = className === undefined ? (await options.handlers())[0] : await options.handlerOf(className);
  if (handler !== undefined && handler !== processHandler && !usesHostPath(spec)) return;
  const needed = className !== undefined && handler === processHandler ? className : processHandler;
  if (!isDelegate(request.user) && options.mayUse(request.user, needed)) return;
  const reason = `ephemeral containers in a process of the node, or next to hostPath volumes, require verb "use" on runtimeclasses.node.k8s.io`;
  throw rejected(pod, request, `${reason} ${JSON.stringify(needed)}`);
}

function rejected({ metadata }: DeepReadonly<KubernetesObject>, { user }: IsolationRequest, reason: string): Error {
  const name = metadata.name ?? metadata.generateName ?? "";
  const message = `pods ${JSON.stringify(name)} is forbidden: user ${JSON.stringify(user.username)}: ${reason}`;
  return statusError("Forbidden", message, { name, kind: "pods" });
}
