import { type FlagValues, formatResult, outputFlag, renderTable } from "@keelson/operator";
import { addFlag, flagValues } from "../../command-line.ts";
import { examine } from "../../doctor/requirements.ts";
import { thisMachine } from "../../doctor/this-machine.ts";
import type { DefineCommand } from "../commands.ts";

/** Defines `keelson doctor`. */
export const defineDoctorCommand: DefineCommand = (command, setExitCode) => {
  addFlag(command, outputFlag);
  command.action(async () => setExitCode(await doctor(flagValues(command))));
};

async function doctor(flags: FlagValues): Promise<number> {
  const findings = await examine(thisMachine);
  process.stdout.write(
    formatResult({ flags }, findings, () => {
      const rows = findings.map(({ name, found, fix = "", neededBy }) => [
        name,
        found === undefined ? "missing" : "ok",
        found ?? `${fix} (for ${neededBy})`,
      ]);
      return renderTable([["REQUIREMENT", "STATE", "DETAIL"], ...rows]);
    }),
  );
  return findings.some(({ name, found }) => name === "Node.js" && found === undefined) ? 1 : 0;
}
