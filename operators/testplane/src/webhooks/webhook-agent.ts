import { BlockList, isIPv6 } from "node:net";
import { Agent, buildConnector, type Dispatcher } from "undici";

const connectTimeoutMs = 5_000;

/** Addresses of services that give a machine its credentials and settings: link-local ones, and those of clouds outside that range. */
const machineServices = new BlockList();
machineServices.addSubnet("169.254.0.0", 16, "ipv4");
machineServices.addSubnet("fe80::", 10, "ipv6");
// Alibaba Cloud, Azure, and EC2 over IPv6.
machineServices.addAddress("100.100.100.200", "ipv4");
machineServices.addAddress("168.63.129.16", "ipv4");
machineServices.addAddress("fd00:ec2::254", "ipv6");

/** Whether an address belongs to the machine, so that no test may reach it as the operator. */
export const isMachineService = (address: string): boolean => machineServices.check(address, isIPv6(address) ? "ipv6" : "ipv4");

/**
 * The dispatcher of webhook calls. The URLs are those of tests, and the calls come from the operator's machine, so nothing is sent to the services
 * of that machine. What counts is the address of the connection, whatever the name or the notation of the host.
 */
export function createWebhookAgent(isForbidden: (address: string) => boolean = isMachineService): Dispatcher {
  const connect = buildConnector({ timeout: connectTimeoutMs });
  return new Agent({
    connect: (options, callback) =>
      connect(options, (...result) => {
        const [error, socket] = result;
        if (error !== null || !isForbidden(socket.remoteAddress ?? "")) return callback(...result);
        socket.destroy();
        callback(
          new Error(`${options.hostname} has the address of a service of the machine, which tests must not reach`),
          null,
        );
      }),
  });
}
