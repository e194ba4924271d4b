import { createServer } from "node:net";
import { isJsonObject, type JsonObject } from "@keelson/api-machinery";
import { own } from "../tasks/task-fields.ts";

/** A port that a task requests. Without a number, the robot chooses one when the program starts. */
export interface TaskPort {
  readonly label: string;
  readonly value?: number;
}

const maxPorts = 32;
const labelPattern = /^[A-Za-z0-9]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?$/;

/** The variable with the number of a port. */
const variableOf = (label: string): string => `K8S4R_PORT_${label.toUpperCase().replaceAll("-", "_")}`;

/** Reads the ports of `spec.resources.networks`. Ports that are not valid are left out. */
export function readPorts(resources: JsonObject): readonly TaskPort[] {
  const networks = own(resources, "networks");
  if (!Array.isArray(networks)) return [];
  const ports = networks
    .filter(isJsonObject)
    .flatMap((network) => [
      ...portsIn(own(network, "reservedPorts")).flatMap(({ label, value }) => (value === undefined ? [] : [{ label, value }])),
      ...portsIn(own(network, "dynamicPorts")).map(({ label }) => ({ label })),
    ]);
  return ports.slice(0, maxPorts);
}

function portsIn(value: unknown): readonly TaskPort[] {
  if (!Array.isArray(value)) return [];
  return value.filter(isJsonObject).flatMap((port) => {
    const [label, number] = [own(port, "label"), own(port, "value")];
    if (typeof label !== "string" || !labelPattern.test(label)) return [];
    return [isPort(number) ? { label, value: number } : { label }];
  });
}

const isPort = (value: unknown): value is number =>
  typeof value === "number" && Number.isInteger(value) && value > 0 && value < 65_536;

/** Variables with the numbers of ports, `K8S4R_PORT_<LABEL>`. Chooses the numbers that are not fixed among the free ones. */
export async function portVariables(ports: readonly TaskPort[]): Promise<Readonly<Record<string, string>>> {
  const numbers = await freePorts(ports.filter(({ value }) => value === undefined).length);
  let next = 0;
  return Object.fromEntries(ports.map(({ label, value }) => [variableOf(label), String(value ?? numbers[next++])]));
}

/** The number of a port of a program with these variables: a label, or the number itself. */
export function portOf(port: string, env: Readonly<Record<string, string>>): number | undefined {
  const name = variableOf(port);
  const value = Number(Object.hasOwn(env, name) ? env[name] : port);
  return isPort(value) ? value : undefined;
}

/** Ports that nothing listens on now. All are found before one is released, so they differ. */
async function freePorts(count: number): Promise<readonly number[]> {
  const servers = Array.from({ length: count }, () => createServer());
  try {
    return await Promise.all(
      servers.map(
        (server) =>
          new Promise<number>((resolve, reject) => {
            server.once("error", reject);
            server.listen(0, "127.0.0.1", () => {
              const address = server.address();
              resolve(typeof address === "object" && address !== null ? address.port : 0);
            });
          }),
      ),
    );
  } finally {
    for (const server of servers) server.close();
  }
}
