import { systemClock } from "@keelson/api-machinery/time";
import { type FlagValues, formatResult, outputFlag } from "@keelson/operator";
import { addConnectionFlags, addFlag, flagValues } from "../../command-line.ts";
import { type CheckResult, verifyOperator } from "../../install/cluster/verification.ts";
import { withCluster } from "../../install/cluster/with-cluster.ts";
import { namespaceFlag, onlyFlag, selectOperators } from "../../install/install-flags.ts";
import { loadOperators } from "../../operators.ts";
import { keelsonVersion } from "../../version.ts";
import type { DefineCommand } from "../commands.ts";

/** Defines `keelson verify`. */
export const defineVerifyCommand: DefineCommand = (command, setExitCode) => {
  for (const flag of [onlyFlag, namespaceFlag, outputFlag]) addFlag(command, flag);
  addConnectionFlags(command);
  command.action(async () => setExitCode(await verify(flagValues(command))));
};

async function verify(flags: FlagValues): Promise<number> {
  const operators = selectOperators(flags, await loadOperators());
  return withCluster(flags, async (client, signal) => {
    const results: CheckResult[] = [];
    const common = { client, clock: systemClock, namespace: namespaceFlag.read(flags), version: keelsonVersion(), signal };
    for (const operator of operators) results.push(...(await verifyOperator({ ...common, operator })));
    process.stdout.write(formatResult({ flags }, results, () => results.map(describe).join("")));
    return results.some(({ problem }) => problem !== undefined) ? 1 : 0;
  });
}

function describe({ operator, check, problem, fix }: CheckResult): string {
  const start = `${operator.padEnd(10)}  ${check.padEnd(7)}  `;
  return problem === undefined ? `${start}ok\n` : `${start}${problem}\n${" ".repeat(start.length)}fix: ${fix ?? ""}\n`;
}
