import { isIP } from "node:net";
import { findConnection } from "@keelson/client";
import { listenForShutdown } from "@keelson/controller";
import { UsageError } from "@keelson/operator/flags";
import { addConnectionFlags, addFlag, flagValues } from "../../command-line.ts";
import type { DefineCommand } from "../commands.ts";
import { forwardPorts } from "../../port-forward/forward-ports.ts";
import { parsePortPair, parseTarget } from "../../port-forward/forward-target.ts";

/** Defines `keelson port-forward`. */
export const definePortForwardCommand: DefineCommand = (command, setExitCode) => {
  command
    .argument("<target>", "POD, pod/NAME or svc/NAME")
    .argument("<ports...>", "[LOCAL:]REMOTE, as numbers or names; :REMOTE picks a free local port");
  addFlag(command, {
    name: "namespace",
    short: "n",
    value: "NAME",
    description: "namespace of the Pod or Service (default: the context's namespace)",
  });
  addFlag(command, {
    name: "address",
    value: "IPS",
    description: "local addresses to listen on, separated by commas",
    default: "127.0.0.1",
  });
  addConnectionFlags(command);
  command.action(async (target: string, ports: readonly string[]) => {
    await portForward(target, ports, flagValues(command));
    setExitCode(0);
  });
};

async function portForward(target: string, ports: readonly string[], flags: ReturnType<typeof flagValues>): Promise<void> {
  const addresses = String(flags.address)
    .split(",")
    .map((each) => (each.trim() === "localhost" ? "127.0.0.1" : each.trim()));
  const invalid = addresses.find((address) => isIP(address) === 0);
  if (invalid !== undefined) throw new UsageError(`--address: ${JSON.stringify(invalid)} is not a valid IP address`);
  const request = { target: parseTarget(target), pairs: ports.map(parsePortPair) };
  const shutdown = listenForShutdown();
  try {
    const { transport, namespace } = await findConnection({
      ...(typeof flags.kubeconfig === "string" ? { kubeconfig: flags.kubeconfig } : {}),
      ...(typeof flags.context === "string" ? { context: flags.context } : {}),
    });
    await forwardPorts({
      ...request,
      transport,
      namespace: typeof flags.namespace === "string" ? flags.namespace : namespace,
      addresses,
      print: (line) => void process.stdout.write(`${line}\n`),
      printError: (line) => void process.stderr.write(`keelson: ${line}\n`),
      signal: shutdown.signal,
    });
  } finally {
    shutdown.dispose();
  }
}
