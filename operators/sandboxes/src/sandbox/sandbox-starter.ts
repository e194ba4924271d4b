import type { BindMount, Program } from "@keelson/execution";
import type { SandboxNetworks } from "../network/sandbox-networks.ts";
import type { AgentSandbox } from "../protocol/protocol.ts";
import type { AgentVolumes } from "../volumes/agent-volumes.ts";
import { sandboxIds } from "../volumes/volume-host.ts";
import type { ReadyImage } from "./image-store.ts";
import { type SandboxProgramOptions, toProgramSpec } from "./sandbox-program.ts";

/** Options of a {@link SandboxStarter}. */
export interface SandboxStarterOptions extends SandboxProgramOptions {
  /** Networks of sandboxes with `internet` or `allowList`. Default: such sandboxes are rejected. */
  readonly networks?: SandboxNetworks;
  /** Default: sandboxes with volumes are rejected. */
  readonly volumes?: AgentVolumes;
}

/** Starts the programs of sandboxes, with the network and the volumes that they request. */
export class SandboxStarter {
  readonly #options: SandboxStarterOptions;

  constructor(options: SandboxStarterOptions) {
    this.#options = options;
  }

  /** Why a sandbox cannot have the network access that it requests. */
  findNetworkProblem({ network = "none" }: AgentSandbox): string | undefined {
    if (network === "none") return undefined;
    const { driver, networks } = this.#options;
    if (driver.name === "process") return `network: ${network} requires the bubblewrap or containerd driver`;
    const problem = networks === undefined ? "is not supported by this agent" : networks.problem;
    return problem === undefined ? undefined : `network: ${network} ${problem}`;
  }

  /** Why a sandbox cannot have its volumes now. Unless it can, {@link SandboxStarter.start} must not be called. */
  findVolumeProblem({ volumes: mounts = [] }: AgentSandbox): string | undefined {
    if (mounts.length === 0) return undefined;
    const { volumes } = this.#options;
    return volumes === undefined ? "this agent has no volumes" : volumes.findProblem(mounts);
  }

  /** Starts the program of a sandbox. Its volumes are reserved when this returns. **Errors**: `ExecutionError`, `VolumeError`. */
  async start(sandbox: AgentSandbox, image: ReadyImage): Promise<Program> {
    try {
      const volumes = await this.#attachVolumes(sandbox);
      return await this.#startProgram(sandbox, image, volumes);
    } catch (error) {
      this.#options.volumes?.detach(sandbox.sandboxId);
      throw error;
    }
  }

  /** Frees what a terminated program has used. */
  async release({ id }: Pick<Program, "id">): Promise<void> {
    this.#options.volumes?.detach(id);
    // Counts its last denied flows.
    await this.#options.networks?.remove(id);
  }

  /** Mounts the volumes of a sandbox for its user. */
  async #attachVolumes({ sandboxId, volumes: mounts = [] }: AgentSandbox): Promise<readonly BindMount[]> {
    const { driver, volumes } = this.#options;
    if (volumes === undefined || mounts.length === 0) return [];
    const binds = await volumes.attach(sandboxId, mounts);
    // A container gets its ids once it has been created.
    if (driver.name === "bubblewrap") await volumes.give(sandboxId, sandboxIds(sandboxId));
    return binds;
  }

  async #startProgram(sandbox: AgentSandbox, image: ReadyImage, volumes: readonly BindMount[]): Promise<Program> {
    const { driver, networks } = this.#options;
    const { sandboxId, network: mode = "none", networkAllow: allow = [] } = sandbox;
    const network = mode === "none" ? undefined : await networks?.create(sandboxId, { mode, allow });
    try {
      return await driver.start(toProgramSpec(sandbox, image, this.#options, { network, volumes }));
    } catch (error) {
      await networks?.forget(sandboxId);
      throw error;
    }
  }
}
