import { createHash } from "node:crypto";
import { constants, createReadStream, readFileSync } from "node:fs";
import type { UserIds } from "@keelson/execution";
import { openBeneath, PathError } from "@keelson/execution/files";
import type { DeviceInfo } from "../../api/device-info.ts";
import { attributes } from "../../placement/attributes.ts";
import { RobotsError } from "../../robots-error.ts";
import type { ArtifactPolicy } from "../policy/robot-policy.ts";
import type { TaskOrder } from "../tasks/task-order.ts";
import type { Artifact } from "./artifact.ts";
import type { ArtifactCache } from "./artifact-cache.ts";
import { TaskFolder } from "./task-folder.ts";
import { parseTaskTemplate, type TaskTemplate } from "./task-template.ts";
import { renderTemplate, type TemplateData } from "./template.ts";
import { unpackArchive } from "./unpack.ts";

/** Maximum size of a template's file. */
const maxTemplateBytes = 1024 * 1024;

/** Options of {@link TaskFiles}. */
export interface TaskFilesOptions {
  readonly cache: ArtifactCache;
  readonly policy: ArtifactPolicy;
  /** The robot's labels. */
  readonly labels: () => Readonly<Record<string, string>>;
  readonly deviceInfo: () => DeviceInfo;
}

/** Where a task's files are written. */
export interface FilesTarget {
  /** The task's directory. */
  readonly dir: string;
  /** User of the files. Undefined: the agent's. */
  readonly owner: UserIds | undefined;
}

/** Templates whose content differs from what was written before. */
export interface TemplateChanges {
  /** Digest of each template's content, in the order of `order.templates`. */
  readonly digests: readonly string[];
  readonly changed: readonly TaskTemplate[];
}

/** Fetches the artifacts and renders the templates of tasks. */
export class TaskFiles {
  readonly #options: TaskFilesOptions;

  constructor(options: TaskFilesOptions) {
    this.#options = options;
  }

  /**
   * Writes the artifacts of a task to its directory.
   *
   * **Errors**: {@link RobotsError} with the code `ArtifactForbidden` or `ArtifactFailed`, which names the artifact; `signal`'s reason.
   */
  async fetch({ artifacts = [] }: TaskOrder, target: FilesTarget, signal: AbortSignal): Promise<void> {
    for (const [index, artifact] of artifacts.entries()) {
      try {
        await this.#options.cache.with(artifact, signal, (file) => this.#place(artifact, file, target, signal));
      } catch (error) {
        signal.throwIfAborted();
        if (!(error instanceof RobotsError || error instanceof PathError)) throw error;
        const code = error instanceof RobotsError ? error.code : "ArtifactFailed";
        throw new RobotsError(code, `spec.artifacts[${index}]: ${error.message}`, { cause: error });
      }
    }
  }

  /**
   * Renders the templates of a task and writes those that differ from `before`, the digests of the last time.
   *
   * **Errors**: {@link RobotsError} with the code `InvalidTemplate`, which names the template. Then none is written.
   */
  render({ templates = [], env, meta = {} }: TaskOrder, target: FilesTarget, before: readonly string[] = []): TemplateChanges {
    const data = this.#data(env, meta);
    const rendered = templates.map((template, index) => {
      try {
        const text = "text" in template.from ? template.from.text : readBeneath(target.dir, template.from.file);
        return { template, content: Buffer.from(renderTemplate(parseTaskTemplate(template, text), data)) };
      } catch (error) {
        if (!(error instanceof RobotsError || error instanceof PathError)) throw error;
        throw new RobotsError("InvalidTemplate", `spec.templates[${index}]: ${error.message}`, { cause: error });
      }
    });
    const digests = rendered.map(({ content }) => createHash("sha256").update(content).digest("hex"));
    const changed = rendered.filter((_, index) => digests[index] !== before[index]);
    const folder = new TaskFolder(target.dir, target.owner);
    for (const { template, content } of changed) folder.replaceFile(template.path, content, template.mode);
    return { digests, changed: changed.map(({ template }) => template) };
  }

  #data(env: Readonly<Record<string, string>>, meta: Readonly<Record<string, string>>): TemplateData {
    const own = (values: Readonly<Record<string, string>>) => (name: string) =>
      Object.hasOwn(values, name) ? values[name] : undefined;
    const { labels, deviceInfo } = this.#options;
    let info: DeviceInfo | undefined;
    return {
      env: own(env),
      meta: own(meta),
      label: own(labels()),
      attr(name) {
        if (!Object.hasOwn(attributes, name)) return undefined;
        info ??= deviceInfo();
        return attributes[name]?.(info)?.toString();
      },
    };
  }

  async #place(artifact: Artifact, file: string, { dir, owner }: FilesTarget, signal: AbortSignal): Promise<void> {
    const folder = new TaskFolder(dir, owner);
    if (artifact.archive !== undefined) {
      const { maxUnpackedBytes: maxBytes } = this.#options.policy;
      await unpackArchive(file, artifact.archive, { folder, path: artifact.path, maxBytes, signal });
      return;
    }
    // Executable, as go-getter leaves it to the source: a downloaded program can be run.
    using writer = folder.createFile(artifact.path, 0o755);
    for await (const chunk of createReadStream(file)) {
      signal.throwIfAborted();
      writer.write(chunk as Buffer);
    }
  }
}

function readBeneath(dir: string, path: string): string {
  using file = openBeneath(dir, path, { kind: "file", flags: constants.O_RDONLY | constants.O_NONBLOCK });
  if (file.stats.size > maxTemplateBytes) throw new RobotsError("InvalidTemplate", `${path} is larger than 1 MiB`);
  return readFileSync(file.fd, "utf8");
}
