import { isAbsolute, normalize } from "node:path";

/** A folder or file of the machine that a program sees at a place of its own. */
export interface BindMount {
  readonly source: string;
  readonly target: string;
  /** Default: read-only. */
  readonly isWritable?: boolean;
}

/**
 * What a program of the `bubblewrap` and `containerd` drivers sees of the machine. The `process` driver refuses a program that
 * asks for it, rather than run it without.
 */
export interface Isolation {
  /** Folder with an unpacked image, which becomes the read-only root. Default: the machine's own `/usr` and what belongs to it. */
  readonly root?: string;
  /** Name of an image that the driver has (`containerd`), whose files become the root. Not together with `root`. */
  readonly image?: string;
  /** `containerd`: whether the image's files cannot be changed; in `bubblewrap` they never can. Default: they can. */
  readonly isRootReadOnly?: boolean;
  /** What is there besides. */
  readonly binds?: readonly BindMount[];
  /** `shared`: the machine's network, loopback included. `none`: a loopback of its own and nothing else. Default: `shared`. */
  readonly network?: "shared" | "none";
  /** Name that the program sees as the machine's. Default: the machine's. */
  readonly hostname?: string;
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const isPath = (value: unknown): value is string =>
  typeof value === "string" && isAbsolute(value) && !value.includes("\0") && normalize(value) === value;

/** What is wrong with what a spec says of its isolation, beginning with the field's name. */
export function isolationProblem(value: unknown): string | undefined {
  if (value === undefined) return undefined;
  if (!isRecord(value)) return "isolation: must be an object";
  const { root, image, binds, network, hostname, isRootReadOnly } = value;
  if (root !== undefined && !isPath(root)) return "isolation.root: must be an absolute path without .. in it";
  if (image !== undefined && !(typeof image === "string" && /^[\w][-\w./:@+]{0,254}$/.test(image))) {
    return "isolation.image: must be the name of an image";
  }
  if (image !== undefined && root !== undefined) return "isolation.image: cannot be set together with isolation.root";
  if (network !== undefined && network !== "shared" && network !== "none") return "isolation.network: must be shared or none";
  if (hostname !== undefined && !(typeof hostname === "string" && /^[A-Za-z0-9]([-.A-Za-z0-9]{0,62})$/.test(hostname))) {
    return "isolation.hostname: must be a host name of at most 63 characters";
  }
  if (isRootReadOnly !== undefined && typeof isRootReadOnly !== "boolean") {
    return "isolation.isRootReadOnly: must be true or false";
  }
  if (binds === undefined) return undefined;
  if (!Array.isArray(binds)) return "isolation.binds: must be a list";
  for (const [index, bind] of binds.entries()) {
    const field = `isolation.binds[${index}]`;
    if (!isRecord(bind)) return `${field}: must be an object`;
    if (!isPath(bind.source)) return `${field}.source: must be an absolute path without .. in it`;
    if (!isPath(bind.target) || bind.target === "/") return `${field}.target: must be an absolute path without .. in it, not /`;
  }
  return undefined;
}
