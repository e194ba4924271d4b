import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { quantityToBytes } from "@keelson/api-machinery/quantity";
import { defaultPath, type Driver, type ProgramSpec, resolveExecutable, isSignal } from "@keelson/execution";
import { removeTree } from "@keelson/execution/files";
import type { PodImage } from "../runtimes/pod-images.ts";
import { type PrivatePodUser, privatePodUser } from "../runtimes/private-pod-user.ts";
import { ContainerError } from "./container-error.ts";
import { limitsOf } from "./container-limits.ts";
import { containerMounts } from "./container-mounts.ts";
import { containerUser, isRootUser } from "./container-user.ts";
import { resolveEnvironment } from "./environment.ts";
import { expandWords } from "./expand.ts";
import { defaultTerminalSize } from "./exec-process.ts";
import { imageCommand, isolatedParts } from "./isolated-program.ts";
import { hostPaths, mountedCommand, mountScript } from "../volumes/mount-plan.ts";
import type { NodeContext } from "../node-context.ts";
import { ipcParameters } from "../pod/admission/pod-admission.ts";
import { networkFiles } from "../pod/network/network-files.ts";
import { hasNetwork } from "../pod/network/pod-addresses.ts";
import { type ContainerView, type PodView, programId } from "../pod/pod-view.ts";
import { oomScoreAdjustment } from "../resources/oom-score.ts";
import { defaultTerminationPath, createTerminationFile } from "./termination-message.ts";
import { writableRoot } from "./writable-root.ts";
import { hasOwnToken, tokenPath, tokenVolumeName } from "../volumes/token-volume.ts";

/** Converts the data of a ConfigMap or Secret to environment values. */
function texts(data: ReadonlyMap<string, Uint8Array> | undefined): Record<string, string> | undefined {
  if (data === undefined) return undefined;
  return Object.fromEntries([...data].map(([key, value]) => [key, Buffer.from(value).toString("utf8")]));
}

/** The resources of a Pod that a container's program uses. */
export interface ContainerSetup {
  readonly podIP: string;
  /** Volume directories by name. */
  readonly volumes: ReadonlyMap<string, string>;
  readonly driver: Driver["name"];
  /** Undefined if the runtime has no image of this name. */
  readonly image?: PodImage | undefined;
}

/**
 * Builds the program of one attempt of a container.
 *
 * **Paths and network.** A process runs on the machine's file system and network. Its volumes appear at their absolute `mountPath`
 * through a private mount namespace (see `mount-plan.ts`). Programs must listen on the Pod's own address, `KEELSON_POD_IP`, or Pods
 * that use the same port conflict. With other drivers, the file system is an image's or the machine's, read-only, with volumes
 * mounted into it.
 *
 * @throws ContainerError
 */
export async function containerProgram(
  node: NodeContext,
  pod: PodView,
  container: ContainerView,
  attempt: number,
  setup: ContainerSetup,
): Promise<ProgramSpec> {
  const isIsolated = setup.driver !== "process";
  const privateUser = privatePodUser(pod, setup.driver, node);
  const attempted: Attempt = { node, pod, container, attempt, setup, isIsolated, hasPrivateUser: privateUser !== undefined };
  const { image } = setup;
  const uid = pod.metadata.uid ?? "";
  requireCommand(container, image);
  const hostsFile = node.hostsFile(pod);
  const env = await environmentOf(attempted, hostsFile);
  const [first = "", ...rest] =
    image === undefined ? [...(container.command ?? []), ...(container.args ?? [])] : imageCommand(container, image);
  const [program = "", ...args] = expandWords([first, ...rest], env);
  const command = [program, ...args] as const;
  if (command[0] === "") {
    throw new ContainerError("CreateContainerConfigError", `container ${JSON.stringify(container.name)}: command[0] is empty`);
  }
  const user = containerUser(pod, container, image, process.getuid?.());
  const mounts = await mountsOf(attempted, env, hostsFile);
  const shared = {
    id: programId(uid, container.name, attempt),
    env,
    mergeOutput: true,
    ...(container.stdin === true && { input: container.stdinOnce === true ? ("once" as const) : ("held" as const) }),
    ...(container.tty === true && { terminal: defaultTerminalSize }),
    ...stopSignal(container),
    killGraceMs: (pod.spec.terminationGracePeriodSeconds ?? 30) * 1000,
    limits: limitsOf(container.resources),
    oomScoreAdjustment: oomScoreAdjustment(pod, container, quantityToBytes(node.capacity.memory)),
    metadata: {
      podUid: uid,
      podName: pod.metadata.name ?? "",
      podNamespace: pod.metadata.namespace ?? "",
      container: container.name,
      attempt: String(attempt),
      resources: JSON.stringify(container.resources ?? {}),
    },
  };
  if (isIsolated) return { ...shared, command, ...(await isolationOf(attempted, mounts, user, privateUser)) };
  const identity = user === undefined ? {} : { user };
  const cwd = container.workingDir || join(node.podsDir, uid, "work", container.name);
  if (!container.workingDir) await mkdir(cwd, { recursive: true });
  if (mounts.length === 0) return { ...shared, command, cwd, ...identity };
  const { script, marker } = await prepareMounting(attempted, { command, cwd, env, user, mounts });
  return {
    ...shared,
    cwd: "/",
    metadata: { ...shared.metadata, marker },
    command: mountedCommand({ script, cwd, command, env }),
  };
}

/** The isolation of an attempt, and the user that it runs as. Root is a private user if the Pod has one. */
async function isolationOf(
  attempt: Attempt,
  mounts: Mounts,
  user: string | undefined,
  privateUser: PrivatePodUser | undefined,
): Promise<Pick<ProgramSpec, "user" | "cwd" | "isolation">> {
  const { node, pod, container, setup } = attempt;
  const owner = isRootUser(user) ? privateUser : undefined;
  // Links of a program with the node's user must not lead the commands alongside it to paths of the machine.
  const hasHostUser = isRootUser(user) && owner === undefined;
  const root = hasHostUser ? undefined : await writableRoot(attempt, owner?.ids);
  const namespace = hasNetwork(node, pod) ? node.network?.path(pod.metadata.uid ?? "") : undefined;
  const canSet = setup.driver === "bubblewrap" && node.canMount;
  const own = { namespace, root, ...(canSet && { ipcParameters: ipcParameters(pod) }) };
  const parts = isolatedParts(pod, container, mounts, setup.image, own);
  if (owner !== undefined) return { ...parts, isolation: { ...parts.isolation, hasPrivateUser: true, userScope: owner.scope } };
  return { ...(user !== undefined && { user }), ...parts };
}

/** Rejects a container with neither a command nor an image. */
function requireCommand(container: ContainerView, image: PodImage | undefined): void {
  if (image !== undefined || (container.command !== undefined && container.command.length > 0)) return;
  throw new ContainerError(
    "CreateContainerConfigError",
    `container ${JSON.stringify(container.name)} has no command, and image ${JSON.stringify(container.image ?? "")} is not ` +
      "available to its runtime: set spec.containers[].command, or import the image and use runtimeClassName bubblewrap or containerd",
  );
}

/** One attempt to run a container. */
interface Attempt {
  readonly node: NodeContext;
  readonly pod: PodView;
  readonly container: ContainerView;
  readonly attempt: number;
  readonly setup: ContainerSetup;
  /** Whether the program has its own file system. */
  readonly isIsolated: boolean;
  /** Whether root in the Pod is another user outside it. */
  readonly hasPrivateUser: boolean;
}

type Environment = Awaited<ReturnType<typeof resolveEnvironment>>;
type Mounts = Awaited<ReturnType<typeof containerMounts>>;

function environmentOf(attempt: Attempt, hostsFile: string): Promise<Environment> {
  const { node, pod, container, setup, isIsolated, hasPrivateUser } = attempt;
  const { image, podIP } = setup;
  const namespace = pod.metadata.namespace ?? "";
  return resolveEnvironment(pod, container, {
    configMap: async (name) => texts(await node.objects.configMap(namespace, name)),
    secret: async (name) => texts(await node.objects.secret(namespace, name)),
    services: node.objects.services(namespace),
    podIP,
    hostIP: node.hostIP,
    nodeName: node.nodeName,
    nodeLimits: node.capacity,
    base: {
      PATH: defaultPath,
      // With an image, the runtime takes HOME from the image's /etc/passwd; a private user has the work directory.
      ...(image === undefined && !hasPrivateUser ? { HOME: "/root" } : {}),
      ...(container.tty === true && { TERM: "xterm" }),
      ...image?.env,
      HOSTNAME: pod.spec.hostname ?? pod.metadata.name ?? "",
      ...node.environment(pod),
      ...(isIsolated ? {} : { KEELSON_HOSTS: hostsFile }),
      KEELSON_POD_IP: podIP,
    },
  });
}

/** The container's own mounts, and those that every container gets: token, termination message, /etc/hosts, /etc/resolv.conf. */
async function mountsOf(
  { node, pod, container, attempt, setup, isIsolated }: Attempt,
  env: Environment,
  hostsFile: string,
): Promise<Mounts> {
  const mounts = await containerMounts(node, { pod, container, attempt, env, volumes: setup.volumes, isIsolated });
  const token = setup.volumes.get(tokenVolumeName);
  if (token !== undefined && !hasOwnToken(container)) mounts.push({ source: token, path: tokenPath, readOnly: true });
  // The default path lies in the machine's own /dev, so processes must name another file.
  const { terminationMessagePath = defaultTerminationPath } = container;
  if (isIsolated || (node.canMount && terminationMessagePath !== defaultTerminationPath)) {
    const source = await createTerminationFile(join(node.podsDir, pod.metadata.uid ?? ""), container.name, attempt);
    mounts.push({ source, path: join("/", terminationMessagePath), readOnly: false });
  }
  const ownFiles = isIsolated ? await networkFiles(node, pod, setup.podIP) : [];
  const files = ownFiles.length > 0 ? ownFiles : [{ source: hostsFile, path: "/etc/hosts", readOnly: true }];
  for (const file of files) {
    // Without permission to mount, programs find the names of Services in the file named by KEELSON_HOSTS.
    const isHidden = mounts.some(({ path }) => path === file.path || path === "/etc");
    if ((node.canMount || isIsolated) && !isHidden) mounts.push(file);
  }
  return mounts;
}

/**
 * Prepares a process that mounts its volumes: checks that its command can be executed, creates the scratch directory of its mount namespace
 * and writes the script that mounts. The program creates `marker` once everything is mounted.
 */
async function prepareMounting(
  { node, pod, container, attempt }: Attempt,
  program: {
    readonly command: readonly [string, ...string[]];
    readonly cwd: string;
    readonly env: Environment;
    readonly user: string | undefined;
    readonly mounts: Mounts;
  },
): Promise<{ readonly script: string; readonly marker: string }> {
  if (!node.canMount) {
    throw new ContainerError(
      "CreateContainerConfigError",
      `container ${JSON.stringify(container.name)} mounts volumes, but this node cannot mount: run it as root with permission to create mount namespaces, or remove volumeMounts`,
    );
  }
  const { user, cwd, env, mounts } = program;
  const [first] = program.command;
  const isInMount = mounts.some(({ path }) => first.startsWith(`${path}/`));
  const isKnownUser = user === undefined || /^\d+(:\d+)?$/.test(user);
  if (!isInMount && isKnownUser) {
    const [uid = 0, gid = 0] = (user ?? "").split(":").map(Number);
    const found = resolveExecutable(first, cwd, env["PATH"] ?? defaultPath, { uid, gid });
    if ("problem" in found) {
      throw new ContainerError("StartError", `The program could not be started: ${found.problem}`, {
        exitCode: found.exitCode,
      });
    }
  }
  const parent = join(node.podsDir, pod.metadata.uid ?? "", "scratch");
  const scratch = join(parent, `${container.name}.${attempt}`);
  await removeTree(join(parent, `${container.name}.${attempt - 1}`));
  await rm(`${scratch}.ready`, { force: true });
  await mkdir(scratch, { recursive: true, mode: 0o755 });
  const marker = `${scratch}.ready`;
  const script = `${scratch}.mounts`;
  const identity = user === undefined ? {} : { user };
  await writeFile(script, mountScript({ mounts, scratch, marker, ...identity, host: hostPaths }), { mode: 0o600 });
  return { script, marker };
}

/** The container's stop signal, if this machine supports it. */
function stopSignal(container: ContainerView): Pick<ProgramSpec, "killSignal"> {
  const signal = container.lifecycle?.stopSignal;
  return isSignal(signal) ? { killSignal: signal } : {};
}
