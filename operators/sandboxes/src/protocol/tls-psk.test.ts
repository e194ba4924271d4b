import { once } from "node:events";
import { createServer as createTcpServer, type AddressInfo, type Server } from "node:net";
import { createServer as createTlsServer } from "node:https";
import { systemClock } from "@keelson/api-machinery/time";
import { afterEach, describe, expect, it } from "vitest";
import { createAgentClient } from "../fleet/agent-client.ts";
import { serverTlsOptions } from "./tls-psk.ts";

const token = "0123456789abcdef".repeat(4);
const servers: Server[] = [];

afterEach(async () => {
  for (const server of servers.splice(0)) await new Promise((resolve) => server.close(resolve));
});

async function listen(server: Server): Promise<number> {
  servers.push(server);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

const deleteFrom = (port: number): Promise<void> =>
  createAgentClient({ url: `https://127.0.0.1:${port}`, token }, systemClock).delete("0".repeat(32));

describe("a connection to an agent", () => {
  it("works if both ends have the key", async () => {
    const paths: string[] = [];
    const port = await listen(
      createTlsServer(serverTlsOptions(token), (request, response) => {
        paths.push(request.url ?? "");
        response.setHeader("connection", "close");
        response.end("{}");
      }),
    );
    await deleteFrom(port);
    expect(paths).toEqual(["/api/v1/agent/delete"]);
  });

  it("reveals neither key nor request to a process that squats on the agent's port", async () => {
    const received: Buffer[] = [];
    const port = await listen(
      createTcpServer((socket) => {
        socket
          .on("error", () => {})
          .on("data", (data) => {
            received.push(data);
            socket.end("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}");
          });
      }),
    );
    await expect(deleteFrom(port)).rejects.toThrow();
    const bytes = Buffer.concat(received).toString("latin1");
    expect(bytes).not.toBe("");
    expect(bytes).not.toContain(token);
    expect(bytes).not.toContain("api/v1");
    expect(bytes).not.toContain("0".repeat(32));
  });

  it("fails if the server has the key of another agent", async () => {
    let requests = 0;
    const port = await listen(createTlsServer(serverTlsOptions("other"), () => requests++));
    await expect(deleteFrom(port)).rejects.toThrow();
    expect(requests).toBe(0);
  });
});
