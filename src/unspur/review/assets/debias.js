// The dialog to debias with the decisions: the command, its progress, and the report.

import { ask, order, Refusal } from "./server.js";
import { byId } from "./elements.js";

const MESSAGES = {
  none: "",
  running: "Running. You can close this window; the command continues while the server runs.",
  done: "Done.",
  failed: "The command has failed. The last lines of its output show why.",
};

export class Debias {
  constructor(readOnly) {
    this.readOnly = readOnly;
    this.dialog = byId("debias");
    byId("open-debias").addEventListener("click", () => this.open());
    byId("debias-close").addEventListener("click", () => this.dialog.close());
    byId("debias-run").addEventListener("click", () => this.send("api/debias/start"));
    byId("debias-stop").addEventListener("click", () => this.send("api/debias/stop"));
  }

  async open() {
    if (!this.dialog.open) this.dialog.showModal();
    await this.look();
  }

  summarise(counts) {
    const parts = [
      [counts.confirmed, "conflicting"],
      [counts.cleared, "not conflicting"],
      [counts.relabelled, "with a new label"],
      [counts.excluded, "excluded"],
    ].filter(([count]) => count);
    const text = parts.map(([count, what]) => `${count.toLocaleString("en")} ${what}`).join(", ");
    const left = counts.suspects - counts.decided;
    const rest = left ? ` ${left.toLocaleString("en")} suspects are not decided and remain suspects.` : "";
    byId("debias-summary").textContent = `${text || "Nothing is decided yet"}.${rest}`;
  }

  async look() {
    clearTimeout(this.timer);
    try {
      const found = await ask("api/debias");
      this.show(found);
      if (found.job.state === "running") this.timer = setTimeout(() => this.look(), 1000);
    } catch (error) {
      byId("debias-state").textContent = error instanceof Refusal ? error.message : "The server does not answer.";
      this.timer = setTimeout(() => this.look(), 3000);
    }
  }

  show({ command, missing, job }) {
    const running = job.state === "running";
    const shown = running || job.state === "done" ? job.command : command;
    byId("debias-command").textContent = shown ?? "";
    byId("debias-command").hidden = !shown;
    byId("debias-note").textContent = missing ?? "The command writes a new folder; existing files are not replaced.";
    byId("debias-run").hidden = running || Boolean(missing) || this.readOnly || job.state === "done";
    byId("debias-stop").hidden = !running;
    this.showJob(job);
  }

  showJob(job) {
    const lines = byId("debias-lines");
    const atEnd = lines.scrollTop + lines.clientHeight >= lines.scrollHeight - 20;
    lines.hidden = job.state === "none";
    lines.textContent = (job.lines ?? []).join("\n");
    if (atEnd) lines.scrollTop = lines.scrollHeight;
    byId("debias-state").textContent = MESSAGES[job.state];
    byId("debias-report").hidden = !job.report;
  }

  async send(path) {
    try {
      await order(path);
    } catch (error) {
      byId("debias-state").textContent = error.message;
    }
    await this.look();
  }
}
