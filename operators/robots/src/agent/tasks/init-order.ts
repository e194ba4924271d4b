import { isJsonObject, type JsonObject } from "@keelson/api-machinery";
import { durationMs } from "../order-lifetime.ts";
import type { AgentPolicy } from "../policy/agent-policy.ts";
import { programProblem } from "../policy/robot-policy.ts";
import { commandOf } from "./task-command.ts";
import { InvalidField, own, text } from "./task-fields.ts";
import { variables } from "./task-variables.ts";

/** A program that runs before that of a task. */
export interface InitOrder {
  readonly name: string;
  readonly command: readonly [string, ...string[]];
  /** Variables in addition to those of the task. */
  readonly env: Readonly<Record<string, string>>;
  /** Default: that of the task. */
  readonly user?: string;
  readonly timeoutMs?: number;
  /** Whether it keeps running alongside the program of the task. */
  readonly isDaemon: boolean;
}

/** Reads `spec.initTasks`. **Errors**: {@link InvalidField}. */
export function readInitTasks(spec: JsonObject, policy: AgentPolicy): { readonly init?: readonly InitOrder[] } {
  const value = own(spec, "initTasks") ?? [];
  if (!Array.isArray(value)) throw new InvalidField("spec.initTasks must be a list");
  const init = value.map((each: unknown, index) => {
    try {
      return readInitTask(isJsonObject(each) ? each : {}, policy);
    } catch (error) {
      if (!(error instanceof InvalidField)) throw error;
      throw new InvalidField(`spec.initTasks[${index}]: ${error.message}`);
    }
  });
  return init.length > 0 ? { init } : {};
}

function readInitTask(task: JsonObject, policy: AgentPolicy): InitOrder {
  if (own(task, "driver") === "docker") throw new InvalidField("spec.driver: docker is not supported for init tasks");
  const command = commandOf(task, policy);
  const user = text(task, "user", "spec");
  const forbidden = programProblem(policy, { command: command[0], user });
  if (forbidden !== undefined) throw new InvalidField(forbidden);
  const timeoutMs = durationMs(task, "timeout");
  return {
    name: text(task, "name", "spec") ?? "",
    command,
    env: variables(own(task, "env")),
    isDaemon: own(task, "daemon") === true,
    ...(user !== undefined && { user }),
    ...(timeoutMs !== undefined && timeoutMs > 0 && { timeoutMs }),
  };
}
