import type { CommandDefinition } from "@keelson/operator";
import { countFlag, UsageError } from "@keelson/operator/flags";
import type { SandboxState } from "@keelson/sandbox/protocol";
import { checkExpireTime } from "./expire-time.ts";
import { type Connection, connectionFlags, runWith } from "./connection.ts";

const maxSeconds = 999_999_999_999;

/** A command that changes the state of one sandbox. */
function lifecycleCommand(
  name: string,
  description: string,
  call: (
    connection: Connection,
    request: { readonly sandboxName: string; readonly namespace: string },
    options: { readonly signal: AbortSignal },
  ) => Promise<SandboxState>,
): CommandDefinition {
  return {
    name,
    description,
    args: ["NAME"],
    flags: connectionFlags,
    run: (context) =>
      runWith(context, async (connection) => {
        const { namespace } = connection;
        const sandboxName = context.args[0] ?? "";
        const { phase } = await call(connection, { sandboxName, namespace }, { signal: context.signal });
        context.stdout.write(`sandbox ${namespace}/${sandboxName} is ${phase}\n`);
        return 0;
      }),
  };
}

const renewFlags = {
  expireIn: countFlag({ name: "expire-in", value: "SECONDS", description: "stop it after this many seconds", max: maxSeconds }),
  expireTime: countFlag({
    name: "expire-time",
    value: "UNIX",
    description: "stop it at this time, in Unix seconds; 0: never",
    max: maxSeconds,
  }),
};

const renew: CommandDefinition = {
  name: "renew",
  description: "change the expiry of a sandbox that has not expired: keelson sandbox renew NAME --expire-in 600",
  args: ["NAME"],
  flags: [...connectionFlags, ...Object.values(renewFlags)],
  run: (context) =>
    runWith(context, async ({ lifecycle, namespace }) => {
      const expireIn = renewFlags.expireIn.read(context.flags);
      const expireTime = renewFlags.expireTime.read(context.flags);
      if ((expireIn === undefined) === (expireTime === undefined))
        throw new UsageError("set either --expire-in or --expire-time, as in: renew NAME --expire-in 600");
      checkExpireTime(expireTime, context.clock.now());
      const sandboxName = context.args[0] ?? "";
      const expiry =
        expireIn === undefined
          ? { case: "expireTimeSeconds" as const, value: BigInt(expireTime ?? 0) }
          : { case: "expireInSeconds" as const, value: BigInt(expireIn) };
      const state = await lifecycle.renew({ sandboxName, namespace, expiry }, { signal: context.signal });
      const seconds = Number(state.expireTimeSeconds);
      const end = seconds === 0 ? "does not expire" : `expires at ${new Date(seconds * 1000).toISOString()}`;
      context.stdout.write(`sandbox ${namespace}/${sandboxName} ${end}\n`);
      return 0;
    }),
};

/** `keelson sandbox pause`, `resume`, `restart` and `renew`. */
export const lifecycleCommands: readonly CommandDefinition[] = [
  lifecycleCommand("pause", "freeze the processes of a sandbox; its expiry does not pass", ({ lifecycle }, request, options) =>
    lifecycle.pause(request, options),
  ),
  lifecycleCommand("resume", "resume a paused sandbox", ({ lifecycle }, request, options) =>
    lifecycle.resume(request, options),
  ),
  lifecycleCommand("restart", "restart a sandbox and wait until it is running", ({ lifecycle }, request, options) =>
    lifecycle.restart(request, options),
  ),
  renew,
];
