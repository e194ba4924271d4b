import { chmodSync, mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { maxConnections } from "./firewall-rules.ts";
import { fetchScript, type NetworkAttempt, type NetworkRun, runInPrivateInternet } from "../testing/private-internet.ts";

/* Everything happens in network namespaces of the test's own, see `private-internet.ts`. */

const isRoot = process.getuid?.() === 0;
let dir: string;

beforeEach(() => {
  dir = realpathSync(mkdtempSync(join(tmpdir(), "network-")));
  chmodSync(dir, 0o711);
});

afterEach(() => rmSync(dir, { recursive: true, force: true }));

describe.runIf(isRoot).each(["bubblewrap", "containerd"] as const)("a sandbox of the %s driver", (driver) => {
  const run = (...attempts: readonly NetworkAttempt[]): Promise<NetworkRun> => runInPrivateInternet(dir, driver, attempts);

  it("with internet reaches public addresses by name, and neither the host, private networks nor other sandboxes", async () => {
    const script = [
      fetchScript("good.example", 80),
      fetchScript("203.0.113.66", 443),
      fetchScript("10.1.0.2", 80),
      fetchScript("10.1.0.1", 80),
      fetchScript("169.254.169.254", 80),
      fetchScript("168.63.129.16", 80),
      fetchScript("198.18.0.1", 80),
      // The host's end of its own link.
      'read -r _ gateway </etc/resolv.conf; (exec 3<>/dev/tcp/$gateway/80) 2>/dev/null || echo "no gateway"',
      "grep -c eth0 /proc/net/dev; grep CapEff /proc/self/status",
    ].join("; ");
    const { results, leftovers } = await run({ network: "internet", script });
    expect(results[0]?.output).toBe(
      "203.0.113.10:80\n203.0.113.66:443\nno 10.1.0.2:80\nno 10.1.0.1:80\nno 169.254.169.254:80\nno 168.63.129.16:80\nno 198.18.0.1:80\nno gateway\n1\nCapEff:\t0000000000000000\n",
    );
    expect(results[0]?.denied?.count).toBe(6);
    expect(results[0]?.denied?.destinations).toEqual(
      expect.arrayContaining([
        "10.1.0.1:80/tcp",
        "10.1.0.2:80/tcp",
        "168.63.129.16:80/tcp",
        "169.254.169.254:80/tcp",
        "198.18.0.1:80/tcp",
      ]),
    );
    expect(leftovers).toBe("");
  });

  it("with allowList reaches the listed names once it has resolved them, the listed addresses, and their ports only", async () => {
    const script = [
      fetchScript("203.0.113.10", 443),
      fetchScript("good.example", 443),
      fetchScript("203.0.113.10", 443),
      fetchScript("good.example", 80),
      fetchScript("10.1.0.2", 80),
      fetchScript("10.1.0.2", 443),
      fetchScript("evil.example", 443),
      fetchScript("203.0.113.66", 443),
      fetchScript("rebind.example", 80),
      fetchScript("10.1.0.1", 80),
    ].join("; ");
    const networkAllow = [
      { host: "good.example", ports: [443] },
      { cidr: "10.1.0.2/32", ports: [80] },
      { host: "rebind.example" },
    ];
    const { results, leftovers } = await run({ network: "allowList", networkAllow, script });
    expect(results[0]?.output.split("\n").slice(0, -1)).toEqual([
      "no 203.0.113.10:443",
      "203.0.113.10:443",
      "203.0.113.10:443",
      "no good.example:80",
      "10.1.0.2:80",
      "no 10.1.0.2:443",
      "no evil.example:443",
      "no 203.0.113.66:443",
      "no rebind.example:80",
      "no 10.1.0.1:80",
    ]);
    expect(results[0]?.denied?.destinations).toEqual(
      expect.arrayContaining(["203.0.113.66:443/tcp", "10.1.0.2:443/tcp", "evil.example", "rebind.example"]),
    );
    expect(leftovers).toBe("");
  });

  it("keeps its network when its agent is replaced, and resolves names again", async () => {
    const script = [fetchScript("good.example", 443), fetchScript("evil.example", 443), fetchScript("203.0.113.66", 80)].join(
      "; ",
    );
    const networkAllow = [{ host: "good.example" }];
    const { results, leftovers } = await run({ network: "allowList", networkAllow, script, isAdopted: true });
    expect(results[0]?.output).toBe("203.0.113.10:443\nno evil.example:443\nno 203.0.113.66:80\n");
    expect(results[0]?.denied?.destinations).toEqual(["203.0.113.66:80/tcp", "evil.example"]);
    expect(leftovers).toBe("");
  });

  it("cannot fill the kernel's table of connections", async () => {
    const flood = `use Socket; socket(S, AF_INET, SOCK_DGRAM, 0); for my $port (1000..2999) { send(S, "x", 0, sockaddr_in($port, inet_aton("203.0.113.10"))); }`;
    const { results } = await run({ network: "internet", script: `perl -e '${flood}'` });
    expect(results[0]?.denied?.count).toBeGreaterThanOrEqual(2000 - maxConnections);
  });

  it("cannot change its network, or answer as its resolver or as another address", async () => {
    const script =
      "ip link set eth0 down 2>/dev/null || echo denied; ip addr add 10.1.0.9/24 dev eth0 2>/dev/null || echo denied; nft list tables 2>/dev/null | grep -c keelson; echo x >/proc/sys/net/ipv4/ip_forward || true";
    const { results } = await run({ network: "internet", script }, { script: fetchScript("203.0.113.10", 80) });
    expect(results.map(({ output }) => output)).toEqual(["denied\ndenied\n0\n", "no 203.0.113.10:80\n"]);
    expect(results[1]?.denied).toBeUndefined();
  });
});
