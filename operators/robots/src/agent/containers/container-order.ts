import { isJsonObject, type JsonObject } from "@keelson/api-machinery";
import { ImageError, parseImageReference } from "@keelson/execution";
import type { DockerPolicy } from "../policy/docker-policy.ts";
import { isAllowedImage } from "../policy/image-policy.ts";
import { isPlainPath } from "../policy/policy-fields.ts";
import { InvalidField, own, text, texts } from "../tasks/task-fields.ts";

/** A container to run. It is JSON, so that it can be recorded before it runs. */
export interface ContainerOrder {
  /** Full name, such as `docker.io/library/busybox:1`. */
  readonly image: string;
  /** Replaces the image's entry point. Empty: the image's. */
  readonly command: readonly string[];
  readonly args: readonly string[];
  /** Default: the image's. */
  readonly workDir?: string;
  /** Default: the network of the policy. */
  readonly network?: "shared" | "none";
  readonly volumes: readonly { readonly source: string; readonly target: string; readonly isWritable: boolean }[];
}

const path = "spec.config.dockerConfig";

/** Reads `spec.config.dockerConfig`. **Errors**: {@link InvalidField}. */
export function readContainer(config: JsonObject): ContainerOrder {
  const image = text(config, "image", path);
  if (image === undefined) throw new InvalidField(`${path}.image is missing; the docker driver requires it`);
  const workDir = text(config, "workDir", path);
  if (workDir !== undefined && !isPlainPath(workDir)) throw new InvalidField(`${path}.workDir must be an absolute path`);
  checkPorts(own(config, "ports"));
  const network = networkOf(text(config, "networkMode", path));
  return {
    image: fullName(image),
    command: texts(own(config, "command"), `${path}.command`),
    args: texts(own(config, "args"), `${path}.args`),
    ...(workDir !== undefined && { workDir }),
    ...(network !== undefined && { network }),
    volumes: objects(own(config, "volumes"), `${path}.volumes`).map(readVolume),
  };
}

function fullName(image: string): string {
  try {
    return parseImageReference(image).name;
  } catch (error) {
    if (error instanceof ImageError) throw new InvalidField(`${path}.image: ${error.message}`);
    throw error;
  }
}

function networkOf(mode: string | undefined): ContainerOrder["network"] {
  if (mode === undefined) return undefined;
  if (mode === "host") return "shared";
  if (mode === "none") return "none";
  throw new InvalidField(`${path}.networkMode: ${JSON.stringify(mode)} must be host or none`);
}

/** Containers have the robot's network, so their ports are those of the robot. */
function checkPorts(value: unknown): void {
  for (const [index, port] of objects(value, `${path}.ports`).entries()) {
    const { value: published, to = published } = port;
    if (to !== published && to !== 0) {
      throw new InvalidField(`${path}.ports[${index}].to must be the same as value: containers have the robot's network`);
    }
  }
}

function readVolume(volume: JsonObject, index: number): ContainerOrder["volumes"][number] {
  const field = `${path}.volumes[${index}]`;
  const [source = "", target = ""] = [text(volume, "source", field), text(volume, "target", field)];
  if (!isPlainPath(source)) throw new InvalidField(`${field}.source must be an absolute path without . or .. in it`);
  if (!isPlainPath(target) || target === "/") {
    throw new InvalidField(`${field}.target must be an absolute path without . or .. in it, not /`);
  }
  return { source, target, isWritable: own(volume, "readOnly") !== true };
}

function objects(value: unknown, field: string): readonly JsonObject[] {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value) || !value.every(isJsonObject)) throw new InvalidField(`${field} must be a list of objects`);
  return value;
}

/** Why the policy forbids a container; undefined if it allows it. Volumes must be listed themselves: a container may have put links below them. */
export function containerProblem(policy: DockerPolicy | undefined, container: ContainerOrder): string | undefined {
  if (policy === undefined) return "spec.driver: the robot's policy allows no containers";
  const { images, network, volumes, writableVolumes } = policy;
  if (images !== undefined && !isAllowedImage(images, container.image)) {
    return `${path}.image: ${container.image} is not allowed; the robot's policy allows ${images.join(", ") || "no image"}`;
  }
  if (container.network === "shared" && network === "none") return `${path}.networkMode: the robot's policy allows none only`;
  for (const [index, { source, isWritable }] of container.volumes.entries()) {
    if (writableVolumes.includes(source) || (!isWritable && volumes.includes(source))) continue;
    const how = isWritable && volumes.includes(source) ? " for writing; set readOnly" : "";
    return `${path}.volumes[${index}].source: ${source} is not allowed by the robot's policy${how}`;
  }
  return undefined;
}
