import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { quantityToBytes, quantityToMillis } from "@keelson/api-machinery/quantity";
import { defaultPath, type Driver, type Limits, type ProgramSpec, resolveExecutable, isSignal } from "@keelson/execution";
import type { PodImage } from "../runtimes/pod-images.ts";
import { ContainerConfigError, expand, resolveEnvironment } from "./environment.ts";
import { usualSize } from "./exec-process.ts";
import { imageWords, isolatedParts } from "./isolated-program.ts";
import { hostPaths, type Mount, mountedCommand } from "../volumes/mount-plan.ts";
import type { NodeContext } from "../node-context.ts";
import { type ContainerView, type PodView, programId } from "../pod/pod-view.ts";
import { defaultTerminationPath, makeTerminationFile } from "./termination-message.ts";
import { hasOwnToken, tokenPath, tokenVolumeName } from "../volumes/token-volume.ts";
import { isInside } from "../volumes/atomic-folder.ts";

/** A container whose program cannot be found or executed: it ends at once with reason `StartError`. */
export class ContainerStartError extends Error {
  override readonly name = "ContainerStartError";
  readonly exitCode: number;

  constructor(message: string, exitCode: number) {
    super(message);
    this.exitCode = exitCode;
  }
}

/** Values of a ConfigMap or Secret as variables have them. */
function texts(data: ReadonlyMap<string, Uint8Array> | undefined): Record<string, string> | undefined {
  if (data === undefined) return undefined;
  return Object.fromEntries([...data].map(([key, value]) => [key, Buffer.from(value).toString("utf8")]));
}

/** Where a container's program runs. */
export interface ContainerPlace {
  readonly podIP: string;
  /** Folders of the Pod's volumes, by name. */
  readonly volumes: ReadonlyMap<string, string>;
  readonly driver: Driver["name"];
  /** Absent where nothing is known of images. */
  readonly image?: PodImage | undefined;
}

/**
 * The program of one attempt of a container.
 *
 * **How names and paths resolve.** The program runs on this machine's own file system and network. Volumes appear at their
 * absolute `mountPath` by a private mount namespace (see `mount-plan.ts`). The network is the machine's: a program that listens
 * must do so on its Pod's own address, `KEELSON_POD_IP`, or two Pods that want the same port are in each other's way. With
 * another driver than `process` the file system is an image's, or the machine's read-only; volumes are mounts there.
 *
 * @throws ContainerConfigError, ContainerStartError
 */
export async function containerProgram(
  node: NodeContext,
  pod: PodView,
  container: ContainerView,
  attempt: number,
  place: ContainerPlace,
): Promise<ProgramSpec> {
  const uid = pod.metadata.uid ?? "";
  const namespace = pod.metadata.namespace ?? "";
  const { image } = place;
  const isIsolated = place.driver !== "process";
  if (image === undefined && (container.command === undefined || container.command.length === 0)) {
    throw new ContainerConfigError(
      `container ${JSON.stringify(container.name)} has no command: this node runs programs of this machine and no images, so ` +
        `nothing of ${JSON.stringify(container.image ?? "")} is known here; set spec.containers[].command to the program to run`,
    );
  }
  const hostsFile = node.hostsFile(pod);
  const env = await resolveEnvironment(pod, container, {
    configMap: async (name) => texts(await node.objects.configMap(namespace, name)),
    secret: async (name) => texts(await node.objects.secret(namespace, name)),
    services: node.objects.services(namespace),
    podIP: place.podIP,
    hostIP: node.hostIP,
    nodeName: node.nodeName,
    nodeLimits: node.capacity,
    base: {
      PATH: defaultPath,
      // The runtime takes it from the image's users.
      ...(image === undefined ? { HOME: "/root" } : {}),
      ...(container.tty === true && { TERM: "xterm" }),
      ...image?.env,
      HOSTNAME: pod.spec.hostname ?? pod.metadata.name ?? "",
      ...node.environment,
      ...(isIsolated ? {} : { KEELSON_HOSTS: hostsFile }),
      KEELSON_POD_IP: place.podIP,
    },
  });
  const given = image === undefined ? [...(container.command ?? []), ...(container.args ?? [])] : imageWords(container, image);
  const words = given.map((word) => expand(word, env));
  const [first = ""] = words;
  if (first === "") throw new ContainerConfigError(`container ${JSON.stringify(container.name)}: command[0] is empty`);
  const id = programId(uid, container.name, attempt);
  const user = userOf(pod, container, image) ?? image?.user ?? (image !== undefined && "root" in image ? "0" : undefined);
  const podDir = join(node.podsDir, uid);
  const limits = limitsOf(container);
  const mounts = await mountsOf(container, env, place.volumes, podDir);
  const token = place.volumes.get(tokenVolumeName);
  if (token !== undefined && !hasOwnToken(container)) mounts.push({ source: token, path: tokenPath, readOnly: true });
  // In the machine's own /dev is no place for it: there another file has to be named.
  const { terminationMessagePath = defaultTerminationPath } = container;
  if (isIsolated || (node.canMount && terminationMessagePath !== defaultTerminationPath)) {
    const source = await makeTerminationFile(podDir, container.name, attempt);
    mounts.push({ source, path: join("/", terminationMessagePath), readOnly: false });
  }
  // Names of Services resolve where we may mount; elsewhere programs find them in the file that KEELSON_HOSTS names.
  if ((node.canMount || isIsolated) && !mounts.some(({ path }) => path === "/etc/hosts" || path === "/etc")) {
    mounts.push({ source: hostsFile, path: "/etc/hosts", readOnly: true });
  }
  const [program = "", ...rest] = words;
  const shared = {
    id,
    env,
    mergeOutput: true,
    ...(container.stdin === true && { input: container.stdinOnce === true ? ("once" as const) : ("held" as const) }),
    ...(container.tty === true && { terminal: usualSize }),
    ...stopSignal(container),
    killGraceMs: (pod.spec.terminationGracePeriodSeconds ?? 30) * 1000,
    ...(limits === undefined ? {} : { limits }),
    metadata: {
      podUid: uid,
      podName: pod.metadata.name ?? "",
      podNamespace: namespace,
      container: container.name,
      attempt: String(attempt),
    },
  };
  const identity = user === undefined ? {} : { user };
  if (isIsolated) {
    return { ...shared, command: [program, ...rest], ...identity, ...isolatedParts(pod, container, mounts, image) };
  }
  const workingDir = container.workingDir || join(podDir, "work", container.name);
  if (!container.workingDir) await mkdir(workingDir, { recursive: true });
  if (mounts.length === 0) {
    return { ...shared, command: [program, ...rest], cwd: workingDir, ...identity };
  }
  if (!node.canMount) {
    throw new ContainerConfigError(
      `container ${JSON.stringify(container.name)} mounts volumes, and this node may not mount: run it as root (on Linux, with the right to make mount namespaces), or leave volumeMounts out`,
    );
  }
  const isInMount = mounts.some(({ path }) => first.startsWith(`${path}/`));
  const isKnownUser = user === undefined || /^\d+(:\d+)?$/.test(user);
  if (!isInMount && isKnownUser) {
    const [ownUid = 0, ownGid = 0] = (user ?? "").split(":").map(Number);
    const found = resolveExecutable(first, workingDir, env["PATH"] ?? defaultPath, { uid: ownUid, gid: ownGid });
    if ("problem" in found) throw new ContainerStartError(`The program could not be started: ${found.problem}`, found.exitCode);
  }
  const scratch = join(podDir, "scratch", `${container.name}.${attempt}`);
  await rm(join(podDir, "scratch", `${container.name}.${attempt - 1}`), { recursive: true, force: true });
  await rm(`${scratch}.ready`, { force: true });
  await mkdir(scratch, { recursive: true, mode: 0o755 });
  return {
    ...shared,
    cwd: "/",
    metadata: { ...shared.metadata, marker: `${scratch}.ready` },
    command: mountedCommand({
      mounts,
      scratch,
      marker: `${scratch}.ready`,
      cwd: workingDir,
      ...(user === undefined ? {} : { user }),
      command: [program, ...rest],
      env,
      host: hostPaths,
    }),
  };
}

async function mountsOf(
  container: ContainerView,
  env: Readonly<Record<string, string>>,
  volumes: ReadonlyMap<string, string>,
  podDir: string,
): Promise<Mount[]> {
  const mounts: Mount[] = [];
  for (const mount of container.volumeMounts ?? []) {
    const folder = volumes.get(mount.name);
    if (folder === undefined) throw new ContainerConfigError(`volumeMounts: there is no volume ${JSON.stringify(mount.name)}`);
    const subPath = expand((mount as { readonly subPathExpr?: string }).subPathExpr ?? mount.subPath ?? "", env);
    if (subPath !== "" && !isInside(subPath))
      throw new ContainerConfigError(`volumeMounts: subPath ${JSON.stringify(subPath)} leads out of the volume`);
    const source = subPath === "" ? folder : join(folder, subPath);
    if (subPath !== "" && !hostPaths.isFile(source)) await mkdir(source, { recursive: true });
    const path = mount.mountPath.startsWith("/") ? mount.mountPath.replace(/\/+$/, "") : join("/", mount.mountPath);
    if (path === "" || podDir === path)
      throw new ContainerConfigError(`volumeMounts: nothing can be mounted at ${JSON.stringify(mount.mountPath)}`);
    mounts.push({ source, path, readOnly: mount.readOnly === true });
  }
  return mounts;
}

/** Whom a container runs as; `undefined`: whom its image says, else this process's own user. */
function userOf(pod: PodView, container: ContainerView, image: PodImage | undefined): string | undefined {
  const uid = container.securityContext?.runAsUser ?? pod.spec.securityContext?.runAsUser;
  const gid = container.securityContext?.runAsGroup ?? pod.spec.securityContext?.runAsGroup;
  const own = process.getuid?.();
  if ((container.securityContext?.runAsNonRoot ?? pod.spec.securityContext?.runAsNonRoot) === true) {
    const effective = String(uid ?? image?.user ?? (image === undefined ? own : 0));
    if (!/^\d+(:\d+)?$/.test(effective)) {
      throw new ContainerConfigError(
        `container has runAsNonRoot and image has non-numeric user (${effective}), cannot verify user is non-root`,
      );
    }
    if (/^0+(:|$)/.test(effective)) {
      throw new ContainerConfigError("container has runAsNonRoot and would run as root: set securityContext.runAsUser");
    }
  }
  // In a root of its own it looks like any user without being it.
  const hasRoot = image !== undefined && "root" in image;
  if (uid === undefined || (uid === own && !hasRoot)) return undefined;
  if (own !== 0 && !hasRoot) {
    throw new ContainerConfigError(
      `securityContext.runAsUser is ${uid}, and this node runs as user ${own}, who cannot become another: run it as root, or leave runAsUser out`,
    );
  }
  return `${uid}:${gid ?? 0}`;
}

/** What it is stopped with, where it says so and this machine knows it. */
function stopSignal(container: ContainerView): Pick<ProgramSpec, "killSignal"> {
  const signal = container.lifecycle?.stopSignal;
  return isSignal(signal) ? { killSignal: signal } : {};
}

function limitsOf(container: ContainerView): Limits | undefined {
  const { cpu, memory } = container.resources?.limits ?? {};
  if (cpu === undefined && memory === undefined) return undefined;
  return {
    ...(cpu === undefined ? {} : { cpuMillis: Math.max(quantityToMillis(cpu), 1) }),
    ...(memory === undefined ? {} : { memoryBytes: Math.max(quantityToBytes(memory), 1) }),
  };
}
