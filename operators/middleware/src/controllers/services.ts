import type { AgentClient } from "../agent/agent-client.ts";
import type { ControllerSettings } from "../settings/controller-settings.ts";
import type { EffectContext } from "./perform-effects.ts";
import type { PluginReader } from "../plugin/plugin-reader.ts";

/** Services shared by the controllers of the middleware family. */
export interface MiddlewareServices {
  readonly agents: AgentClient;
  readonly settings: ControllerSettings;
  readonly plugins: PluginReader;
  /** Command line of the agent in Pods, without flags. */
  readonly agentCommand: readonly string[];
  /** Command line of the Pods that transfer backups, without flags. */
  readonly transferCommand: readonly string[];
  /** Completes a Pod before it is created. */
  readonly completePod: NonNullable<EffectContext["completePod"]>;
  /** Generates a secret as printable text. */
  readonly generateSecret: () => string;
}
