import { isIP } from "node:net";
import { findConnection } from "@keelson/client";
import { listenForShutdown } from "@keelson/controller";
import type { Command } from "commander";
import { addConnectionFlags, addFlag, flagValues, UsageError } from "../command-line.ts";
import { forwardPorts } from "../port-forward/forward-ports.ts";
import { parsePair, parseTarget } from "../port-forward/forward-target.ts";

/** Adds `keelson port-forward`: local ports that lead to those of a Pod, in the cluster of any kubeconfig. */
export function addPortForwardCommand(program: Command, setExitCode: (code: number) => void): void {
  const command = program
    .command("port-forward")
    .description("forward local ports to a Pod, or to a Pod of a Service, until Ctrl-C")
    .argument("<target>", "POD, pod/NAME or svc/NAME")
    .argument("<ports...>", "[LOCAL:]REMOTE, numbers or names; :REMOTE picks a free local port")
    .exitOverride();
  addFlag(command, {
    name: "namespace",
    short: "n",
    value: "NAME",
    description: "of the Pod or Service (default: that of the context)",
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
}

async function portForward(target: string, ports: readonly string[], flags: ReturnType<typeof flagValues>): Promise<void> {
  const addresses = String(flags.address)
    .split(",")
    .map((each) => (each.trim() === "localhost" ? "127.0.0.1" : each.trim()));
  const wrong = addresses.find((address) => isIP(address) === 0);
  if (wrong !== undefined) throw new UsageError(`--address: ${JSON.stringify(wrong)} is no IP address`);
  const wanted = { target: parseTarget(target), pairs: ports.map(parsePair) };
  const shutdown = listenForShutdown();
  try {
    const { transport, namespace } = await findConnection({
      ...(typeof flags.kubeconfig === "string" ? { kubeconfig: flags.kubeconfig } : {}),
      ...(typeof flags.context === "string" ? { context: flags.context } : {}),
    });
    await forwardPorts({
      ...wanted,
      transport,
      namespace: typeof flags.namespace === "string" ? flags.namespace : namespace,
      addresses,
      print: (line) => void process.stdout.write(`${line}\n`),
      complain: (line) => void process.stderr.write(`keelson: ${line}\n`),
      signal: shutdown.signal,
    });
  } finally {
    shutdown.dispose();
  }
}
