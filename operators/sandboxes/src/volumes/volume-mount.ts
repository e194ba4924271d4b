import { isJsonObject } from "@keelson/api-machinery";

/** A volume of a sandbox, as its spec names it. */
export interface VolumeReference {
  /** Name of the SandboxVolume. */
  readonly name: string;
  /** Where the sandbox sees it. */
  readonly mountPath: string;
  readonly readOnly?: boolean;
}

/** A volume of a sandbox on its agent. */
export interface VolumeMount extends VolumeReference {
  /** Uid of the SandboxVolume. It names a directory of the agent. */
  readonly volumeId: string;
}

/** Maximum number of volumes of a sandbox. */
export const maxVolumes = 8;

/** Valid mount paths: absolute, without `.`, `..`, empty parts and white space. */
export const mountPathPattern =
  "^(/(\\.\\.[A-Za-z0-9_.+-]+|\\.[A-Za-z0-9_+-][A-Za-z0-9_.+-]*|[A-Za-z0-9_+-][A-Za-z0-9_.+-]*))+$";

/** Directories that a sandbox has of its own, or from its image. No volume can be mounted on or below them. */
const reservedFolders = [
  "bin",
  "dev",
  "etc",
  "lib",
  "lib32",
  "lib64",
  "libx32",
  "proc",
  "run",
  "sbin",
  "sys",
  "tmp",
  "usr",
  "work",
];

/** Mount paths on or below which no volume can be mounted. */
export const reservedPathPattern = `^/(${reservedFolders.join("|")}|var/(tmp|run))(/|$)`;

/** Valid ids of volumes: UUIDs. They become directory names on the agent. */
export const volumeIdPattern = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

const namePattern = /^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/;
const mountPathExpression = new RegExp(mountPathPattern);
const reservedPathExpression = new RegExp(reservedPathPattern);
const isBelow = (path: string, folder: string): boolean => path === folder || path.startsWith(`${folder}/`);

/** What is wrong with the volumes of a sandbox, starting with the field's name; undefined if they are valid. */
export function volumesProblem(volumes: unknown): string | undefined {
  if (!Array.isArray(volumes) || volumes.length > maxVolumes) return `volumes: must be a list of at most ${maxVolumes} volumes`;
  const references: VolumeReference[] = [];
  for (const [index, volume] of volumes.entries()) {
    const problem = referenceProblem(volume, references);
    if (problem !== undefined) return `volumes[${index}]${problem}`;
    references.push(volume as VolumeReference);
  }
  return undefined;
}

function referenceProblem(volume: unknown, others: readonly VolumeReference[]): string | undefined {
  if (!isJsonObject(volume)) return ": must be an object";
  const { name, mountPath, readOnly } = volume;
  if (typeof name !== "string" || !namePattern.test(name)) return `.name: ${JSON.stringify(name)} must name a SandboxVolume`;
  if (typeof mountPath !== "string" || mountPath.length > 255 || !mountPathExpression.test(mountPath))
    return `.mountPath: ${JSON.stringify(mountPath)} must be an absolute path of at most 255 letters, digits and ._+-`;
  if (reservedPathExpression.test(mountPath))
    return `.mountPath: ${mountPath} must not be a directory of the system or of the sandbox; use a path such as /data`;
  if (readOnly !== undefined && typeof readOnly !== "boolean") return ".readOnly: must be true or false";
  if (others.some((other) => other.name === name)) return `.name: ${name} is listed twice`;
  const overlap = others.find((other) => isBelow(mountPath, other.mountPath) || isBelow(other.mountPath, mountPath));
  return overlap === undefined ? undefined : `.mountPath: ${mountPath} overlaps ${overlap.mountPath}`;
}

/** What is wrong with the volumes in a request to an agent. */
export function volumeMountsProblem(volumes: unknown): string | undefined {
  const problem = volumesProblem(volumes);
  if (problem !== undefined) return problem;
  const mounts = volumes as readonly { readonly volumeId?: unknown }[];
  const bad = mounts.findIndex(({ volumeId }) => typeof volumeId !== "string" || !volumeIdPattern.test(volumeId));
  return bad < 0 ? undefined : `volumes[${bad}].volumeId: must be a UUID`;
}

/** Whether two sandboxes cannot use a volume at the same time: one of them writes to it. */
export const isExclusive = (one: Pick<VolumeReference, "readOnly">, other: Pick<VolumeReference, "readOnly">): boolean =>
  one.readOnly !== true || other.readOnly !== true;
