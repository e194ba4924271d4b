import { readAllowedImages } from "./image-policy.ts";
import { duration, fields, invalid, isPlainPath, names, size } from "./policy-fields.ts";

/** As that of an artifact's download. */
const defaultPullTimeoutMs = 3_600_000;

/** Size and age of images that are kept although no task uses them. */
const [defaultCacheBytes, defaultUnusedImageMs] = [10 * 2 ** 30, 30 * 86_400_000];

/** What containers of the `docker` driver may do on a robot. */
export interface DockerPolicy {
  /** Socket of containerd. Default: that of the execution package. */
  readonly socket?: string;
  /** Full names of images, or prefixes such as `registry.example.com/fleet/`; see `isAllowedImage`. Default: any image. */
  readonly images?: readonly string[];
  /** Whether images that the robot does not have are pulled from their registry. */
  readonly pull: boolean;
  /** Maximum time of a pull. */
  readonly pullTimeoutMs: number;
  /** Maximum size of all images that were pulled, beyond which unused ones are removed. */
  readonly cacheBytes: number;
  /** An image that no task has used for this time is removed. */
  readonly unusedImageMs: number;
  /** `none`: no network but its own loopback interface. */
  readonly network: "shared" | "none";
  /** Path of a Docker configuration with accounts for registries. Default: pulls are anonymous. */
  readonly credentialsFile?: string;
  /** Files and directories that containers can mount read-only. */
  readonly volumes: readonly string[];
  /** Files and directories that containers can mount and change. */
  readonly writableVolumes: readonly string[];
}

/** Reads the `docker` field of a policy. **Errors**: `RobotsError` with the code `InvalidPolicy`, which names the field. */
export function readDockerPolicy(value: unknown): DockerPolicy {
  const policy = fields(value, "docker", [
    ...["socket", "images", "pull", "pullTimeout", "credentialsFile", "network", "volumes", "writableVolumes"],
    ...["cacheSize", "unusedImageAge"],
  ]);
  const { pull = true, network = "shared" } = policy;
  const [socket, credentialsFile] = [
    pathOf(policy.socket, "docker.socket"),
    pathOf(policy.credentialsFile, "docker.credentialsFile"),
  ];
  if (typeof pull !== "boolean") throw invalid("docker.pull", pull, "must be true or false");
  if (network !== "shared" && network !== "none") throw invalid("docker.network", network, "must be shared or none");
  const images = readAllowedImages(policy.images);
  const pathsOf = (field: "volumes" | "writableVolumes"): readonly string[] => {
    const paths = names(policy[field], `docker.${field}`) ?? [];
    for (const path of paths) {
      if (!isPlainPath(path) || path === "/" || path.endsWith("/"))
        throw invalid(`docker.${field}`, path, "must be an absolute path without . or .. in it, not /, and not end with /");
    }
    return paths;
  };
  return {
    ...{ pull, pullTimeoutMs: duration(policy, "docker", "pullTimeout", defaultPullTimeoutMs) },
    cacheBytes: size(policy, "docker", "cacheSize", defaultCacheBytes),
    unusedImageMs: duration(policy, "docker", "unusedImageAge", defaultUnusedImageMs),
    ...{ network, volumes: pathsOf("volumes"), writableVolumes: pathsOf("writableVolumes") },
    ...(socket !== undefined && { socket }),
    ...(credentialsFile !== undefined && { credentialsFile }),
    ...(images !== undefined && { images }),
  };
}

function pathOf(value: unknown, field: string): string | undefined {
  if (value === undefined || (typeof value === "string" && isPlainPath(value))) return value;
  throw invalid(field, value, "must be an absolute path without . or .. in it");
}
