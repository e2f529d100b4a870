// Names the column in each cell of a table, for the cards that phones show instead of rows.
'use strict'
{
  const nameColumns = (table) => {
    const names = [...table.querySelectorAll('thead th')].map((header) => header.innerText.trim())
    for (const row of table.querySelectorAll('tbody tr')) {
      const cells = [...row.cells]
      const title = cells.findIndex((cell) => !cell.matches('.action-checkbox')) // stands for the row
      for (const [index, cell] of cells.entries()) {
        if (index > title && names[index] && !cell.dataset.column) cell.dataset.column = names[index]
      }
    }
  }
  const nameAll = () => document.querySelectorAll('#content table').forEach(nameColumns)

  nameAll()
  // Other scripts replace tables.
  new MutationObserver(nameAll).observe(document.querySelector('#content'), { childList: true, subtree: true })
}
