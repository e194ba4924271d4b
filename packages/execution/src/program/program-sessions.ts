import type { ExecSession, ExecSpec } from "../driver.ts";
import type { LaunchedProgram } from "../process/launcher.ts";

/** The commands that run alongside one program. They are killed when it terminates. */
export class ProgramSessions {
  readonly #sessions = new Set<ExecSession>();
  #isClosed = false;

  async start(launched: LaunchedProgram, spec: ExecSpec): Promise<ExecSession> {
    const session = await launched.exec(spec);
    // `close` did not see a session that was still starting.
    if (this.#isClosed) await session.kill();
    else {
      this.#sessions.add(session);
      void session.exited().then(() => this.#sessions.delete(session));
    }
    return session;
  }

  /** Kills commands that are still starting. The program's own process has terminated. */
  close(): void {
    this.#isClosed = true;
  }

  async kill(): Promise<void> {
    await Promise.all([...this.#sessions].map((session) => session.kill()));
  }
}
