import { textFlag, UsageError } from "@keelson/operator/flags";
import { addFlag, flagValues } from "../../command-line.ts";
import { runComponent } from "../../local/processes/run-component.ts";
import { loadOperators } from "../../operators.ts";
import type { DefineCommand } from "../commands.ts";

const operatorsFlag = textFlag({ name: "operators", value: "NAMES", description: "operators that the controllers run" });

/** Defines `keelson component`, which `keelson up` runs for each of its processes. */
export const defineComponentCommand: DefineCommand = (command, setExitCode) => {
  command.argument("<name>", "apiserver or controllers");
  addFlag(command, { name: "data-dir", value: "DIR", description: "directory that holds all state" });
  addFlag(command, operatorsFlag);
  command.action(async (name: string) => {
    if (process.send === undefined) throw new UsageError("component is started by `keelson up` only");
    const flags = flagValues(command);
    process.title = `keelson ${name} --data-dir ${String(flags["data-dir"])}`;
    const operators = operatorsFlag.read(flags) ?? "";
    setExitCode(name === "apiserver" ? await runApiServer() : await runControllers(operators.split(",")));
  });
};

async function runApiServer(): Promise<number> {
  const { startApiServerComponent } = await import("../../local/processes/api-server-component.ts");
  return runComponent((config, context) => {
    if (config.component !== "apiserver") throw new TypeError(`unexpected configuration of ${config.component}`);
    return startApiServerComponent(config, context);
  });
}

async function runControllers(names: readonly string[]): Promise<number> {
  const [{ startControllersComponent }, operators] = await Promise.all([
    import("../../local/processes/controllers-component.ts"),
    loadOperators(new Set(names)),
  ]);
  return runComponent((config, context) => {
    if (config.component !== "controllers") throw new TypeError(`unexpected configuration of ${config.component}`);
    return startControllersComponent(config, operators, context);
  });
}
